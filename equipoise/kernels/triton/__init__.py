"""Fused GPU kernels of the contrast, one family per space and form."""
