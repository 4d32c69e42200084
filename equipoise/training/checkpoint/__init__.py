"""Checkpoints of a run, and the folder they are in."""
