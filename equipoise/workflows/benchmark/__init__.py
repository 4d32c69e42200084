"""`equipoise benchmark`: any models on published sets, side by side."""

from __future__ import annotations

from equipoise.workflows.benchmark.listing import list_sets
from equipoise.workflows.benchmark.run import BenchmarkRequest, run_benchmark

__all__ = ["BenchmarkRequest", "list_sets", "run_benchmark"]
