"""Visual question answering on frozen features."""
