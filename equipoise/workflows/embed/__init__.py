"""Features of data, written to be trained on."""
