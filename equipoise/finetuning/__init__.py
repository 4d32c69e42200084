"""Fine-tuning: its methods and settings, weights between start and end, and what became better or worse."""
