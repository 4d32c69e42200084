"""SIMAT: its tables, pictures and oracle."""
