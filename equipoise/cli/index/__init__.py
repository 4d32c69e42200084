"""The words of `equipoise index ...`."""
