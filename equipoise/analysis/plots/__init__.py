"""A picture for each finding of the laboratory, all in the style of `reports/plots.py`."""
