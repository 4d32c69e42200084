"""Models of other libraries' encoders train, are stored and load back; preprocessing that is not theirs is refused."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

from equipoise.cli import main
from equipoise.workflows import load

SMALL = [
    "data.train_size=40", "data.validation_size=10", "data.test_size=10", "preprocess.size=32", "space.dim=8",
    "training.batch_size=8", "training.steps=2", "training.warmup_steps=1", "text.name=causal-nano",
]  # fmt: skip


def train(out, *settings: str) -> int:
    return main(
        ["train", "clip-scenes", *(w for each in (*SMALL, *settings) for w in ("--set", each)), "--out", str(out)]
    )


@pytest.mark.slow
def test_an_image_encoder_of_timm_starts_from_its_weights(timm, tmp_path, capsys):
    torch.manual_seed(0)
    there = timm.create_model("test_vit", img_size=32)
    file = tmp_path / "vit.safetensors"
    save_file(there.state_dict(), file)
    chosen = ["image.name=timm", "image.model=test_vit", f"image.weights={file}", "image.frozen=true"]
    assert train(tmp_path / "refused", *chosen) == 2
    assert "the image encoder was trained with mean [0.5, 0.5, 0.5]" in capsys.readouterr().err
    half = ["preprocess.mean=[0.5, 0.5, 0.5]", "preprocess.std=[0.5, 0.5, 0.5]"]
    assert train(tmp_path / "run", *chosen, *half) == 0
    file.unlink()  # the model folder has the weights now
    model = load(tmp_path / "run")
    assert torch.equal(model.image_encoder.model.patch_embed.proj.weight, there.patch_embed.proj.weight)


@pytest.mark.slow
@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_a_convolutional_encoder_trains(timm, tmp_path, ema):
    assert train(tmp_path / "run", "image.name=timm", "image.model=test_resnet", f"training.ema={ema}") == 0
    assert load(tmp_path / "run").encode_image(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).shape == (2, 8)


@pytest.mark.slow
def test_a_text_encoder_of_transformers_trains(transformers, tmp_path):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    folder = tmp_path / "bert"
    transformers.BertModel(transformers.BertConfig(vocab_size=1024, **sizes)).save_pretrained(folder)
    assert train(tmp_path / "run", "text.name=transformers", f"text.model={folder}", "text.pretrained=true") == 0
    assert load(tmp_path / "run").encode_text(["a red fish"]).shape == (1, 8)
