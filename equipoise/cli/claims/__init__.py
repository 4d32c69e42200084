"""The words of `equipoise claims`."""
