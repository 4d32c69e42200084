"""The loop, the optimiser and its schedule, checkpoints, metrics."""
