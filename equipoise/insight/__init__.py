"""The laboratory: what a trained model, or a run, shows about temperature, topology and cost."""
