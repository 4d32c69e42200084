"""`scenes`: a procedural image-text world whose truth is known exactly."""
