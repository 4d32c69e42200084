"""Metrics, throughput, and loggers: TensorBoard, Weights & Biases, MLflow."""
