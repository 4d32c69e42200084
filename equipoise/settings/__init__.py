"""Strict TOML to dataclasses: reading, layers with their origin, types, and the way back. Knows no component."""
