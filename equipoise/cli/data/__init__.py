"""The words of `equipoise data ...`."""
