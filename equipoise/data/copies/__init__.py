"""Pictures that a data set holds more than once: the same pixels, or nearly so, whatever their captions."""

from __future__ import annotations
