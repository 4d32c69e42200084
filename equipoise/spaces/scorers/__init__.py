"""Scorers that are no spaces: similarities overridden, chosen by class, or taken with mixes."""
