"""Making an index of data, and changing it."""
