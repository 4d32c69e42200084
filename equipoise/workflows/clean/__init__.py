"""`equipoise clean`: which captions of a data set to train on, decided by models that never saw them."""

from __future__ import annotations

from equipoise.workflows.clean.run import clean_data, run_clean

__all__ = ["clean_data", "run_clean"]
