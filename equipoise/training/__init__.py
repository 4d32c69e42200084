"""The loop, the optimizer and its schedule, checkpoints, metrics."""
