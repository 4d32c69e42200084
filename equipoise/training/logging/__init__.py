"""Metrics, throughput and TensorBoard."""
