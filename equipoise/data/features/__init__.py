"""Pairs that are features already: a source that reads vectors and token features from npz, safetensors and Parquet."""

from __future__ import annotations

from equipoise.data.features.source import FeatureFiles

__all__ = ["FeatureFiles"]
