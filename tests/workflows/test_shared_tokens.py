"""Runs of one process that train on the same source learn its tokenizer once, and each counts what it cuts."""

from __future__ import annotations

from equipoise.config import load_run
from equipoise.workflows import train_model

SMALL = ("data.train_size=40", "data.seed=31", "tokens.vocabulary=600")


def test_a_tokenizer_is_learned_once_for_each_of_its_settings(monkeypatch):
    learned = []
    made = train_model.CaptionTokenizer.from_config
    monkeypatch.setattr(
        train_model.CaptionTokenizer,
        "from_config",
        lambda config, captions: learned.append(1) or made(config, captions),
    )
    run = load_run("demo", list(SMALL)).run
    source = run.training_pairs()
    first, second = (train_model._new_tokens(run, source) for _ in range(2))
    assert len(learned) == 1
    assert first.description() == second.description()
    first.truncated += 3
    assert second.truncated == 0
    train_model._new_tokens(load_run("demo", [*SMALL, "tokens.context=30"]).run, source)
    assert len(learned) == 2
