"""Files that are never half-written, work that can be resumed, progress bars."""
