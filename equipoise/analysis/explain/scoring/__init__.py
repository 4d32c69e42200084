"""Explanations scored on scenes, where the place of every named thing is known. One measure a file."""
