"""Explanations: which places of a picture and which words of a text a similarity rests on. One method a file."""

from __future__ import annotations

from equipoise.analysis.explain.relevance import AUTO, METHODS, explain

__all__ = ["AUTO", "METHODS", "explain"]
