"""Checkpoints of a run and the folder they lie in."""
