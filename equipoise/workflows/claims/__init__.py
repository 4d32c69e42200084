"""Claims as experiments: cells that are trained once, verdicts that follow from them by rules, pages."""

from __future__ import annotations
