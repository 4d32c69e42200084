"""transformers' CLIP configs and state dicts."""
