"""Similarities that are no spaces: columns overridden, chosen by class, or mixed toward a point."""
