"""Filters on side data: a small language, read by us, and what it means for columns and for SQL."""
