"""The experiments of `equipoise lab`: a model and its data meet a formula of `analysis/`; each returns a report."""
