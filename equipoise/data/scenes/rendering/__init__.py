"""Scenes as pixels."""
