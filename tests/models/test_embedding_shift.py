"""Embedding shift: the formula, no shift bit for bit, the sweep against brute force, folders, refusals."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from every_space import space_named
from small_model import random_batch, small_model

import equipoise as eq
from equipoise.citations import bibliography
from equipoise.cli import main
from equipoise.config import dump, load_run
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.evaluation.encoding import encode_images
from equipoise.evaluation.evaluate import evaluate, validate
from equipoise.evaluation.shift_sweep import GRIDS, ShiftSweep, measure_direction, selectable_metrics, sweep_shift
from equipoise.models.code_features import with_code_features
from equipoise.models.embedding_shift import EmbeddingShift, shifted
from equipoise.models.folder import save_model
from equipoise.spaces import Euclidean, ProductSphere, Sphere, TokenSets
from equipoise.types import UserError
from equipoise.workflows import build_model, shift_model
from equipoise.workflows.shift import ShiftRequest

LITTLE = ("data.train_size=40", "data.validation_size=30", "data.test_size=4", "data.cache=false")
SPACES = ("sphere", "product_sphere-inner", "product_sphere-geodesic", "euclidean")


def direction(dim: int) -> torch.Tensor:
    g = torch.randn(dim, generator=torch.Generator().manual_seed(4)).double()
    return g / g.norm()


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("amount", [-2.5, -0.07, 0.04, 1.0])
def test_points_move_by_the_paper_read_aloud(name, amount):
    space = space_named(name, 8)
    points = space.project(torch.randn(3, 8, generator=torch.Generator().manual_seed(1)).double())
    g, parts = direction(8), {"sphere": 1}.get(name, getattr(space, "m", 0))
    for tower, sign in (("image", -1), ("text", 1)):
        found = shifted(points, g, amount, tower, space)
        for i in range(3):
            moved = [float(points[i, k]) + sign * amount * float(g[k]) for k in range(8)]
            if parts:
                size = 8 // parts
                lengths = [math.sqrt(sum(x * x for x in moved[p * size : (p + 1) * size])) for p in range(parts)]
                moved = [x / lengths[k // size] for k, x in enumerate(moved)]
            assert found[i].tolist() == pytest.approx(moved, abs=1e-12)


def test_in_euclidean_space_half_the_gap_closes_it():
    u, v = (torch.randn(50, 6, generator=torch.Generator().manual_seed(s)).double() + s for s in (0, 1))
    apart = u.mean(0) - v.mean(0)
    g, half, space = apart / apart.norm(), float(apart.norm()) / 2, Euclidean(6)
    moved = shifted(u, g, half, "image", space).mean(0) - shifted(v, g, half, "text", space).mean(0)
    assert float(moved.norm()) < 1e-12


def test_all_roads_to_points_are_shifted_alike():
    model, batch = small_model(ProductSphere(4, 4)), random_batch(5)
    plain = model(batch)
    model.shift = EmbeddingShift(0.3, direction(16))
    found = model(batch)
    for tower, before, after in (("image", plain.image, found.image), ("text", plain.text, found.text)):
        expected = shifted(before, model.shift.direction, 0.3, tower, model.space)
        assert not torch.equal(before, after)
        assert torch.equal(after, expected)
    assert torch.equal(model.image_points(batch.images), found.image)
    assert torch.equal(model.text_points(batch), found.text)
    features = model.image_encoder(batch.images, classes_only=True)
    assert torch.equal(model.read("image", features), found.image)
    assert "shift.direction" in model.state_dict()
    found.image.sum().backward()
    assert model.image_readout.projection.grad.isfinite().all()


def test_an_amount_of_zero_is_no_shift_bit_for_bit():
    assert EmbeddingShift.Config(0.0).build(Sphere(4)) is None
    points = torch.randn(4, 8)  # not even projected again
    assert shifted(points, torch.ones(8), 0.0, "text", Sphere(8)) is points


def test_code_weights_are_not_shifted():
    model, batch = small_model(readout="code_book"), random_batch(3)
    before = with_code_features(model)(batch).image
    model.shift = EmbeddingShift(0.5, direction(16))
    assert torch.equal(with_code_features(model)(batch).image, before)
    assert model.shift is not None


@pytest.fixture(scope="module")
def little(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small model whose images and texts lie apart, as random towers have them."""
    loaded = load_run("clip-scenes", [*LITTLE, "image.name=vit-nano", "text.name=causal-nano", "space.dim=16"])
    source = loaded.run.data.build("train")
    captions = [caption for index in range(len(source)) for caption in source.pair(index).captions]
    torch.manual_seed(0)
    model = build_model(loaded.run, CaptionTokenizer.from_config(loaded.run.caption_tokens(), captions))
    folder = tmp_path_factory.mktemp("little") / "model"
    save_model(model, folder, dump(loaded.table), {})
    return folder


def run_of(path: Path | str = "clip-scenes", *more: str):
    return load_run(path, [*LITTLE, *more]).run


def test_the_direction_is_that_between_the_means(little, monkeypatch):
    model, source = eq.load(little), run_of().data.build("train")
    images = encode_images(model, source, 16)
    texts = model.encode_text([source.pair(index).captions[0] for index in range(len(source))])
    apart = (images.double().mean(0) - texts.double().mean(0)).tolist()
    length = math.sqrt(sum(x * x for x in apart))
    monkeypatch.setattr("equipoise.evaluation.shift_sweep.AT_ONCE", 7)  # never all at once
    seen: list[int] = []
    g, gap = measure_direction(model, source, 16, seen.append)
    assert seen == [7, 14, 21, 28, 35, 40]
    assert gap == pytest.approx(length, rel=1e-5)
    assert g.tolist() == pytest.approx([x / length for x in apart], abs=1e-5)


@pytest.mark.slow
def test_the_model_that_was_written_scores_what_the_sweep_says(little, tmp_path, capsys):
    """Encoded anew by the folder that was written, not by the sweep."""
    out = tmp_path / "shifted"
    amounts = ("-0.5", "-0.1", "0.3", "1.0", "2.5")
    arguments = ["shift", str(little), "clip-scenes", *(f"--set={one}" for one in LITTLE), "--out", str(out)]
    assert main([*arguments, "--amounts", *amounts, "--metric", "rsum"]) == 0
    found = json.loads((out / "shift.json").read_text())
    assert found["amounts"] == [-0.5, -0.1, 0.0, 0.3, 1.0, 2.5]
    assert found["values"][found["amounts"].index(found["best"])] == max(found["values"])
    assert found["finding"] in capsys.readouterr().out
    assert (out / "shift.png").stat().st_size > 5000
    run, source = run_of(), run_of().data.build("validation")
    for amount, value in zip(found["amounts"], found["values"], strict=True):
        model = eq.load(little)
        if amount:
            model.shift = EmbeddingShift(amount, measure_direction(model, run.data.build("train"), 256)[0])
        assert validate(model, source, run.evaluation)["rsum"] == pytest.approx(value, abs=1e-9)
    written = eq.load(out)
    assert found["best"] != 0, "choose other amounts: this test wants a shift"
    assert written.shift is not None
    assert written.shift.amount == found["best"]
    assert validate(written, source, run.evaluation)["rsum"] == pytest.approx(max(found["values"]), abs=1e-9)
    assert "liang2022gap" in bibliography(EmbeddingShift.Config(0.1))
    assert main(["shift", str(out), "clip-scenes", "--out", str(tmp_path / "twice")]) == 2
    assert "this model is shifted already" in capsys.readouterr().err
    for format in ("open_clip", "transformers"):
        assert main(["export", str(out), "--to", format, "--out", str(tmp_path / format)]) == 2
        assert "its points are shifted" in capsys.readouterr().err


def test_where_no_shift_is_better_the_model_is_the_same_bit_for_bit(little, tmp_path):
    out = tmp_path / "same"
    sweep = shift_model(little, "clip-scenes", LITTLE, out, ShiftRequest(amounts=(0.0,), pairs=10), "cpu")
    assert sweep.best == 0.0
    assert sweep.pairs == 10
    assert (out / "config.toml").read_text() == (little / "config.toml").read_text()
    assert (out / "model.safetensors").read_bytes() == (little / "model.safetensors").read_bytes()


def test_classes_can_choose_too(little):
    model, run = eq.load(little), run_of()
    source = run.data.build("validation")
    assert "acc1" in selectable_metrics(source)
    sweep = sweep_shift(
        model, run.data.build("train"), source, run.evaluation, amounts=GRIDS["official"], metric="acc1"
    )
    assert len(sweep.amounts) == 41
    for amount in (0.0, 2.5):
        model.shift = EmbeddingShift(amount, sweep.direction) if amount else None
        assert evaluate(model, source, run.evaluation)["zero_shot"].metrics["acc1"] == sweep.at(amount)


def test_ties_go_to_the_smallest_shift():
    sweep = ShiftSweep(torch.zeros(2), 1.0, 1, "rsum", (-0.2, -0.1, 0.0, 0.1, 0.2), (3.0, 5.0, 4.0, 5.0, 5.0))
    assert sweep.best == -0.1
    flat = ShiftSweep(torch.zeros(2), 1.0, 1, "rsum", (-0.1, 0.0, 0.1), (5.0, 5.0, 5.0))
    assert flat.best == 0.0
    assert (len(GRIDS["paper"]), GRIDS["paper"][0], GRIDS["paper"][-1]) == (21, -0.1, 0.1)
    assert (GRIDS["official"][0], GRIDS["official"][1], GRIDS["official"][-1]) == (-2.5, -2.375, 2.5)


def test_mistakes_are_sentences(little, tmp_path, capsys):
    def said(*words: str) -> str:
        assert main(["shift", str(little), "clip-scenes", *(f"--set={one}" for one in LITTLE), *words]) == 2
        return capsys.readouterr().err

    assert "is not a metric of the held-out data; choose" in said("--metric", "recall", "--out", str(tmp_path / "a"))
    assert "--pairs must be at least 0" in said("--pairs", "-1", "--out", str(tmp_path / "a"))
    assert "is there already" in said("--out", str(little))
    assert not (tmp_path / "a").exists()
    with pytest.raises(UserError, match="have no mean"):
        EmbeddingShift.Config(0.1).build(TokenSets(4, 2))
    with pytest.raises(UserError, match="amount must be a number"):
        EmbeddingShift.Config(math.nan)
    with pytest.raises(UserError, match="have no mean"):
        sweep_shift(small_model(TokenSets(4, 8), readout="token_set"), None, None, None)  # type: ignore[arg-type]
    assert main(["train", "clip-scenes", *(f"--set={one}" for one in (*LITTLE, "shift.amount=0.1", "training.steps=1")),
                 "--set=training.batch_size=4", "--out", str(tmp_path / "run")]) == 2  # fmt: skip
    assert "there is no direction to shift along before a model is trained" in capsys.readouterr().err
    assert not (tmp_path / "run" / "config.toml").exists()


def test_equal_means_are_refused(little):
    model = eq.load(little)
    model.space = Euclidean(16)
    for readout in (model.image_readout, model.text_readout):
        torch.nn.init.zeros_(readout.projection)
    with pytest.raises(UserError, match="the same mean"):
        measure_direction(model, run_of().data.build("validation"), 16)
