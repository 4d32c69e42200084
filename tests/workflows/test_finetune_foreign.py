"""Fine-tuning of what other libraries wrote."""

from __future__ import annotations

import torch
from finetune_runs import ended, trained
from small_clip import (
    small_config,
    small_open_clip,
    small_tokens,
    small_transformers,
    write_open_clip,
    write_transformers,
)

from equipoise.config import load_stored
from equipoise.workflows import load


def test_a_folder_of_open_clip(tmp_path, open_clip):
    tokens = small_tokens()
    config = small_config(tokens=tokens)
    peer = small_open_clip(open_clip, config)
    start = write_open_clip(tmp_path / "theirs", peer.state_dict(), config, tokens)
    settled = ended(start, tmp_path / "out", "m3mix", "training.learning_rate=1e-3")
    assert "not trained here" in settled.comparison.left_out
    copy = load(tmp_path / "out" / "start")
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(
        copy.state_dict().values(), load(start).state_dict().values(), strict=True))  # fmt: skip
    run = load_stored(tmp_path / "out" / "config.toml").run
    assert run.preprocess.mean == (0.5, 0.4, 0.3)
    assert settled.model.encode_text(["a red fish"]).shape == (1, 12)


def test_a_folder_of_transformers(tmp_path, transformers):
    tokens = small_tokens()
    start = write_transformers(tmp_path / "theirs", small_transformers(transformers, tokens), tokens, transformers)
    state, logged = trained(start, tmp_path / "out", "lora", "lora.rank=2")
    assert any(bool(tensor.any()) for name, tensor in state.items() if name.endswith(".adapter.up"))
    assert logged[-1]["step"] == 8
