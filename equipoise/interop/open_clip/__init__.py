"""open_clip's configs and state dicts."""
