"""Overrides that make a few-shot run on scenes take a second."""

SMALL = (
    "data.of.validation_size=16", "data.of.test_size=24", "data.shots=4", "tokens.vocabulary=600",
    "image.width=32", "image.layers=1", "text.width=32", "text.layers=1", "space.dim=16",
    "training.steps=4", "training.batch_size=8", "training.log_every=1", "training.warmup_steps=1",
    "training.evaluate_every=2", "training.checkpoint_every=2", "training.device=cpu",
)  # fmt: skip
