"""The words of `equipoise scenes ...`."""
