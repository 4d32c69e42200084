"""Loops of other libraries with our losses, by the very words of docs/losses.md: each library really trains."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
from open_clip_peer import make_torchvision_importable
from started_once import ROOT, run_ranks
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PAGE = (ROOT / "docs" / "losses.md").read_text(encoding="utf-8")


def block(heading: str, language: str = "python") -> str:
    """The first block of a section of the page."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.search(rf"^```{language}\n(.*?)^```", section, re.M | re.S)[1]


def names_of(heading: str) -> dict:
    module = types.ModuleType("own_loop")
    exec(block(heading), vars(module))
    return vars(module)


def installed(name: str) -> types.ModuleType:
    make_torchvision_importable()
    return pytest.importorskip(name, reason=f"{name} is not installed: its loop with our losses is NOT tested")


@pytest.mark.slow
def test_ddp(tmp_path: Path) -> None:
    """The page's script under torchrun: all ranks say the same loss."""
    script = tmp_path / "train.py"
    text = block("Several GPUs: DDP and FSDP")
    script.write_text(text.replace("print(f", "open(__file__ + str(dist.get_rank()), 'w').write(f"), encoding="utf-8")
    run_ranks(2, script, [])
    said = [(tmp_path / f"train.py{rank}").read_text().partition(": ")[2] for rank in range(2)]
    assert said[0] == said[1]
    assert 0 < float(said[0]) < 100


TINY = {
    "embed_dim": 32,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
}
BEFORE = """from open_clip_peer import make_torchvision_importable
make_torchvision_importable()
import open_clip
open_clip.add_model_config("tiny.json")
"""


@pytest.mark.slow
def test_open_clips_own_main_with_one_changed_line(open_clip, tmp_path: Path) -> None:
    """Its source with the page's line in place of its own, run on its synthetic data; features of two batches are
    accumulated. In a process of its own, for it changes the log of all."""
    installed("open_clip_train")
    installed("pandas")  # which it imports and does not ask for
    from open_clip_train import file_utils

    source = Path(file_utils.__file__).with_name("main.py").read_text(encoding="utf-8")
    taken, put = (line[1:] for line in block("open_clip's training loop", "diff").splitlines())
    assert source.count(f"{taken}\n") == 1
    changed = source.replace(f"{taken}\n", f"{put}\n").replace("import copy\n", "import copy\nimport equipoise\n", 1)
    assert changed.count("import equipoise\n") == 1
    (tmp_path / "tiny.json").write_text(json.dumps(TINY))
    (tmp_path / "main.py").write_text(BEFORE + changed, encoding="utf-8")
    words = "--model tiny --dataset-type synthetic --train-data synthetic --train-num-samples 32 --batch-size 8"
    words += " --epochs 1 --workers 0 --warmup 1 --accum-freq 2 --log-every-n-steps 1 --save-frequency 0 --device cpu"
    beside = os.pathsep.join(map(str, (ROOT, ROOT / "benchmarks")))
    done = subprocess.run(
        [sys.executable, "main.py", *words.split(), "--name", "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONPATH": beside},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    log = (tmp_path / "logs" / "run" / "out.log").read_text()
    assert len(re.findall(r" Loss: ([\d.]+)", log)) == 2
    assert {"Soft_loss", "Relation_loss", "Contrastive_loss"} <= set(re.findall(r"(\w+_loss): ", log))


@pytest.mark.slow
def test_hugging_face_trainer(transformers, tmp_path: Path) -> None:
    installed("accelerate")
    torch.manual_seed(0)
    small = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.CLIPConfig(
        text_config={**small, "vocab_size": 40, "max_position_embeddings": 8, "eos_token_id": 2},
        vision_config={**small, "image_size": 16, "patch_size": 8},
        projection_dim=16,
    )
    model = transformers.CLIPModel(config)
    ids = torch.randint(3, 40, (24, 8))
    ids[:, -1] = 2
    data = [{"input_ids": i, "pixel_values": p} for i, p in zip(ids, torch.randn(24, 3, 16, 16), strict=True)]
    args = transformers.TrainingArguments(
        output_dir=str(tmp_path), per_device_train_batch_size=8, max_steps=40, learning_rate=3e-3, logging_steps=10,
        report_to=[], use_cpu=True, save_strategy="no", remove_unused_columns=False, disable_tqdm=True,
    )  # fmt: skip
    before = model.logit_scale.item()
    trainer = names_of("Hugging Face Trainer")["ContrastiveTrainer"](model=model, args=args, train_dataset=data)
    trainer.train()
    seen = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert seen[-1] < seen[0] - 0.5
    assert model.logit_scale.item() != before


@pytest.mark.slow
def test_lightning(tmp_path: Path) -> None:
    lightning = installed("lightning")
    torch.manual_seed(0)
    model = names_of("Lightning")["Contrastive"](nn.Linear(12, 16), nn.Linear(10, 16))
    x = torch.randn(64, 12)
    pairs = DataLoader(TensorDataset(x, x[:, :10]), batch_size=16, shuffle=True, drop_last=True)
    trainer = lightning.Trainer(
        max_epochs=20, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        default_root_dir=tmp_path,
    )  # fmt: skip
    seen, step = [], model.training_step

    def noted(*batch: object) -> torch.Tensor:
        value = step(*batch)
        seen.append(float(value.detach()))
        return value

    model.training_step = noted
    trainer.fit(model, pairs)
    assert sum(seen[-4:]) < 0.8 * sum(seen[:4])
    assert {"soft_loss", "m2_loss"} <= set(trainer.callback_metrics)


@pytest.mark.slow
def test_sentence_transformers(tmp_path: Path) -> None:
    library = installed("sentence_transformers")
    datasets = installed("datasets")
    from sentence_transformers import losses as their_losses
    from sentence_transformers import models
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    colours, things = ("red", "blue", "green", "grey"), ("fish", "star", "tree", "boat")
    words = {word: number for number, word in enumerate(("[UNK]", "a", "the", *colours, *things))}
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    torch.manual_seed(0)
    embedding = models.StaticEmbedding(tokenizer, embedding_dim=16)
    model = library.SentenceTransformer(modules=[embedding], device="cpu")
    texts = [(f"a {colour} {thing}", f"the {thing} {colour}") for colour in colours for thing in things]
    data = datasets.Dataset.from_dict({"anchor": [a for a, _ in texts], "positive": [b for _, b in texts]})
    names = names_of("sentence-transformers")
    loss = names["PairsOfColumns"](model)
    features = [model.tokenize(list(side)) for side in zip(*texts, strict=True)]
    theirs = their_losses.MultipleNegativesRankingLoss(
        model, directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction"
    )
    torch.testing.assert_close(loss(features), theirs(features, None))
    before = float(loss(features).detach())
    args = library.SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path), max_steps=30, per_device_train_batch_size=8, learning_rate=0.05, report_to=[],
        use_cpu=True, save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    library.SentenceTransformerTrainer(model=model, args=args, train_dataset=data, loss=loss).train()
    assert float(loss(features).detach()) < before - 0.1


def test_the_page_has_a_section_for_every_loop() -> None:
    assert "own_loop" not in sys.modules
    for heading in ("Plain torch", "Hugging Face Trainer", "Lightning", "sentence-transformers"):
        assert "eq.losses." in block(heading)
