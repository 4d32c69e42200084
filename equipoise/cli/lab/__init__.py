"""The words of `equipoise lab ...`."""
