"""Training on the captions that look right: what `equipoise clean` decides, and the source that goes by it."""

from __future__ import annotations
