"""Array operations with a fused GPU path: sparsemax, max-relevance, split-bf16 products."""
