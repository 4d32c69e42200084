"""Every built-in recipe resolves, one of each kind runs in `make test`, and all of them in `make test-all`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from equipoise.citations import bibliography
from equipoise.config import builtin_recipes, load_run
from equipoise.data.batches import Batches
from equipoise.data.scenes import Scenes
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.models.model import count_parameters
from equipoise.spaces import ProductSphere
from equipoise.training.ema import EMA
from equipoise.training.logging.metrics import read_metrics
from equipoise.training.step import Step
from equipoise.workflows import build_model, load, run_recipe

LITTLE_DATA = ("data.train_size=16", "data.validation_size=4", "data.test_size=4", "training.steps=2")
FEW_LAYERS = ("image.layers=2", "text.layers=2")
# All sizes as published but the depth of the two larger ones: on one core ViT-B/16 takes 22 s for two steps,
# ViT-L/14 takes 80 s and 7.5 GB. The family topology-* differs in space and readout alone, but for its large one.
LARGE, REFERENCE = "topology-multi-32x16", "topology-sphere-512-vit-b16"
# The rows of SoftCLIP's Table 5 differ in their objective alone, so they run with less of everything.
LADDER = {
    "softclip-baseline": "clip",
    "label-smoothing": "clip_smoothed",
    "clip-soft": "clip_soft",
    "clip-soft-relation": "clip_soft_relation",
    "softclip": "softclip",
}
LITTLE = ("text.layers=1", "text.width=64", "text.heads=2", "preprocess.size=64", "data.detector.size=64")
SHALLOW = {
    "resnet-50": (*LITTLE, "image.layers=[1, 1, 1, 1]", "image.width=16"),
    **dict.fromkeys(
        ("vit-b32", "vit-b16"), (*LITTLE, "image.layers=1", "image.width=64", "image.heads=2", "regions.blocks=1")
    ),
}
TOPOLOGIES = [name for name in builtin_recipes() if name.startswith("topology-")]
CODE_BOOKS = [name for name in builtin_recipes() if name.startswith("fdt-vit-")]
SWINS = ("fdt-swin-b", "clip-swin-b")
DECLIP_TOWERS = {"declip-fdt-vit-b16": "fdt-vit-b16", "declip-fdt-swin-b": "fdt-swin-b"}
FUSED = ("albef-vit-b16", "tcl-vit-b16", "tcl-ps-128x2")
BASELINES = ("slip-vit-b32", "declip-vit-b32", "declip-fdt-vit-b32", "filip-vit-b32")
PAPER_SCALE = {
    "clip-vit-b32": (),
    "clip-vit-b16": FEW_LAYERS,
    "clip-vit-l14": FEW_LAYERS,
    **dict.fromkeys(TOPOLOGIES, ("image.layers=1", "text.layers=1")),
    **{f"{row}-{tower}": less for row in LADDER for tower, less in SHALLOW.items()},
    "softclip-resnet-50": ("image.layers=[1, 1, 1, 1]", "text.layers=2"),
    "softclip-vit-b32": ("image.layers=4", "text.layers=2"),
    "softclip-vit-b16": ("image.layers=3", "text.layers=2"),
    **dict.fromkeys((*CODE_BOOKS, *BASELINES), ("image.layers=1", "text.layers=1")),
    "declip-fdt-vit-b16": ("image.layers=1", "text.layers=1"),
    "coca-vit-b32": ("image.layers=1", "text.layers=1", "objective.decoder.layers=1"),
    **dict.fromkeys(FUSED, ("image.layers=1", "text.layers=1", "objective.fusion.layers=1")),
    "cyclip-resnet-50": ("image.layers=[1, 1, 1, 1]", "text.layers=1"),
    **dict.fromkeys((*SWINS, "declip-fdt-swin-b"), ("image.layers=[1, 2, 1, 1]", "text.layers=1")),
}
OF_SCENES = {name: loaded.run for name, loaded in ((name, load_run(name)) for name in builtin_recipes())
             if isinstance(loaded.run.data, Scenes.Config)}  # fmt: skip
# Those that read files are tested beside their readers.
SMALL = [name for name in OF_SCENES if name not in PAPER_SCALE]


def first_of_each(kind: Callable[[str], object]) -> set[str]:
    """One recipe of each kind, a small one where there is one."""
    return set({kind(name): name for name in reversed((*SMALL, *PAPER_SCALE))}.values())


def shown_alike(name: str) -> object:
    """What a report depends on."""
    run = OF_SCENES[name]
    return type(run.readout), type(run.space), getattr(run.space, "distance", "")


def trained_alike(name: str) -> object:
    """What a step depends on beside the towers: recipes of one kind differ in numbers alone."""
    run = OF_SCENES[name]
    return shown_alike(name), type(run.objective), run.prompts.length > 0


REPORTED = first_of_each(shown_alike)
TRAINED = first_of_each(trained_alike) | first_of_each(lambda name: type(OF_SCENES[name].image))


def slow_unless(names: Iterable[str], quick: set[str]) -> list[Any]:
    return [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in names]


# judges of so little data know nothing, and a run that is to clean by them ends there (tests/workflows/test_clean.py)
NOT_JUDGED = {"demo-noisy": ("clean.enabled=false",)}


@pytest.mark.parametrize("recipe", slow_unless(SMALL, set(sorted(REPORTED)[::3])))
def test_small_recipes_run_from_data_to_report(recipe: str, tmp_path: Path) -> None:
    settings = [*LITTLE_DATA, "training.batch_size=8", "training.log_every=1", *NOT_JUDGED.get(recipe, ())]
    assert run_recipe(recipe, settings, tmp_path / "run", f"equipoise train {recipe}") == 0
    losses = [record["loss"] for record in read_metrics(tmp_path / "run" / "metrics.jsonl") if "loss" in record]
    assert len(losses) == 2
    assert all(0 < loss < 200 for loss in losses)  # far points of unbounded spaces cost much at first
    assert load(tmp_path / "run").encode_text("a red fish").isfinite().all()
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize("recipe", slow_unless(OF_SCENES, TRAINED - REPORTED))
def test_recipes_take_two_steps(recipe: str) -> None:
    settings = (*LITTLE_DATA, *PAPER_SCALE.get(recipe, ()), "training.batch_size=2", "training.warmup_steps=0")
    run = load_run(recipe, settings).run
    source = run.data.build("train")
    captions = (caption for index in range(len(source)) for caption in source.pair(index).captions)
    tokens = CaptionTokenizer.from_config(run.caption_tokens(), captions)
    model = build_model(run, tokens).train()
    step = Step(model, run.objective, run.training, torch.device("cpu"))
    batches = Batches(source, tokens, run.preprocess, batch_size=2, seed=0, views=run.objective.views)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    before = [parameter.detach().clone() for parameter in trained]
    average = EMA(model, run.training.ema)
    losses = [step(batches.batch(number), number + 1, average).loss.total.item() for number in range(2)]
    assert all(0 < loss < 200 for loss in losses)
    assert not all(map(torch.equal, trained, before))


def test_paper_scale_recipes_have_the_published_sizes() -> None:
    """Parameters of the image towers, in millions, as open_clip counts them for the same architectures."""
    published = {"clip-vit-b32": 87.8, "clip-vit-b16": 86.2, "clip-vit-l14": 304.0, "softclip-resnet-50": 38.3}
    for recipe, millions in published.items():
        run = load_run(recipe).run
        with torch.device("meta"):
            tower = run.image.build(run.preprocess.size)
            readout = run.readout.build(tower.width, run.space, "image")
        assert (count_parameters(tower) + count_parameters(readout)) / 1e6 == pytest.approx(millions, abs=0.1)


def test_topologies_have_the_published_hyper_parameters_and_differ_in_space_and_readout_alone() -> None:
    """Sun & Li 2024, Table 5, the two columns on the right."""
    base = load_run("topology-sphere-512").table
    training = base["training"]
    assert (training["batch_size"], training["steps"], training["warmup_steps"]) == (2048, 108_000, 5000)
    assert (training["learning_rate"], training["weight_decay"], training["clip_norm"]) == (5e-4, 0.5, 1.0)
    assert (training["betas"], training["epsilon"], base["temperature"]["max_scale"]) == ([0.9, 0.98], 1e-8, 100.0)
    assert (base["image"]["width"], base["text"]["width"], base["text"]["layers"]) == (384, 512, 12)
    assert not base["text"]["causal"]
    chosen = {"name": "", "space": {}, "readout": {}}
    for recipe in TOPOLOGIES:
        loaded = load_run(recipe)
        if recipe not in (LARGE, REFERENCE):
            assert loaded.table | chosen == base | chosen
        assert (loaded.table["readout"]["name"] == "class_tokens") == ("-multi-" in recipe)
        sizes = [int(size) for size in re.findall(r"\d+", recipe)]
        if isinstance(loaded.run.space, ProductSphere):
            assert [loaded.run.space.n, loaded.run.space.m] == sizes
            assert (loaded.run.space.distance == "geodesic") == recipe.endswith("geodesic")


def test_the_large_multi_has_the_published_hyper_parameters() -> None:
    """Sun & Li 2024, Table 5, the column of CLIP-Multi(32,16)."""
    table = load_run(LARGE).table
    training = table["training"]
    assert (training["batch_size"], training["warmup_steps"], training["weight_decay"]) == (32_768, 2000, 0.2)
    assert (training["learning_rate"], training["betas"], training["epsilon"]) == (5e-4, [0.9, 0.998], 1e-8)
    assert (training["clip_norm"], table["temperature"]["max_scale"]) == (1.0, 3.95)
    assert (table["image"]["width"], table["image"]["patch"], table["tokens"]["vocabulary"]) == (768, 16, 30_522)
    assert training["precision"] == "float32"  # the paper: no mixed precision


def test_the_large_multi_and_its_reference_are_the_released_models() -> None:
    """The released files differ by 2,334,720 bytes: two larger maps there, 15 class tokens and their places here."""
    tables, sizes = {}, {}
    for recipe in (LARGE, REFERENCE):
        loaded = load_run(recipe)
        tokens = SimpleNamespace(size=30_522, context=loaded.run.caption_tokens().context)
        assert tokens.context == 77
        with torch.device("meta"):
            model = build_model(loaded.run, tokens)
        tables[recipe], sizes[recipe] = loaded.table, count_parameters(model)
        assert (model.text_encoder.config.norm_first, model.text_encoder.config.embedding_norm) == (False, True)
    assert (sizes[REFERENCE] - sizes[LARGE]) * 4 == 2_334_720
    assert model.text_encoder.positions.shape == (77, 512)
    same = {"name": "", "readout": {}, "space": {}, "temperature": {}}
    assert tables[LARGE] | same == tables[REFERENCE] | same
    assert tables[REFERENCE]["temperature"]["max_scale"] == 100


@pytest.mark.parametrize(
    ("tower", "batch", "dim"), [("resnet-50", 2048, 1024), ("vit-b32", 2048, 512), ("vit-b16", 1024, 512)]
)
def test_the_rows_of_softclips_table_have_its_hyper_parameters_and_differ_in_the_objective_alone(tower, batch, dim):
    """Gao et al. 2024, Implementation Details: 32 epochs of CC3M, a tenth of them warm-up."""
    base = load_run(f"softclip-{tower}").table
    training, objective = base["training"], base["objective"]
    assert (training["batch_size"], training["weight_decay"], base["space"]["dim"]) == (batch, 0.2, dim)
    assert training["steps"] == pytest.approx(32 * 3_000_000 / batch, rel=1e-3)
    assert training["warmup_steps"] * 10 == training["steps"]
    assert (objective["beta"], objective["relation_weight"], objective["clip_weight"]) == (0.3, 1.0, 0.5)
    assert (base["preprocess"]["size"], base["tokens"]["context"], base["data"]["detector"]["regions"]) == (224, 77, 10)
    assert base["regions"]["blocks"] == (0 if tower == "resnet-50" else 3)
    for row, name in LADDER.items():
        table = load_run(f"{row}-{tower}").table
        guided = name in ("clip_soft", "clip_soft_relation", "softclip")
        assert (table["objective"]["name"], bool(table["regions"]["width"])) == (name, guided)
        assert bool(table["data"]["detector"]["regions"]) == guided
        chosen = {"name": "", "objective": {}, "regions": {}, "data": {}}
        assert table | chosen == base | chosen


def test_code_books_have_the_published_hyper_parameters() -> None:
    """Chen et al. 2023, App. A (batches for 15M, 30M and 145M pairs; one epoch of warm-up) and Table 7; 10M parameters
    more than CLIP (Table 17). 32 epochs, MoCo v2's augmentation: the released code."""
    of_pairs = {"fdt-vit-b32-30m": (30e6, 8192), "fdt-vit-b32-145m": (145e6, 32_768)}
    for recipe in CODE_BOOKS:
        table = load_run(recipe).table
        training = table["training"]
        pairs, batch = of_pairs.get(recipe, (15e6, 4096))
        assert (training["batch_size"], training["learning_rate"], training["weight_decay"]) == (batch, 1e-3, 0.1)
        assert training["warmup_steps"] == pytest.approx(pairs / batch, rel=1e-3)
        assert training["steps"] == pytest.approx(32 * pairs / batch, rel=2e-3)
        assert [table["augment"][name] for name in ("flip", "jitter", "grey", "blur")] == [0.5, 0.8, 0.2, 0.5]
        assert table["preprocess"]["crop_scale"] == [0.2, 1.0]
        assert (table["preprocess"]["size"], table["tokens"]["context"], table["space"]["dim"]) == (224, 77, 512)
    sizes = {load_run(recipe).run.readout.codes for recipe in CODE_BOOKS}
    assert sizes == {8192, 16_384, 24_576}
    run = load_run("fdt-vit-b32").run
    with torch.device("meta"):
        towers = [run.readout.build(w, run.space, tower) for w, tower in ((768, "image"), (512, "text"))]
        book = run.readout.shared(run.space)
    assert sum(map(count_parameters, (*towers, book))) / 1e6 == pytest.approx(10, abs=0.5)


def test_the_baselines_of_code_books_differ_from_them_in_what_they_are_named_after_alone() -> None:
    base = load_run("declip-vit-b32").table
    assert base["training"] == load_run("fdt-vit-b32").table["training"]
    objective = base["objective"]
    assert [objective[f"{term}_weight"] for term in ("clip", "simsiam", "words", "nearest")] == [0.4, 0.2, 0.2, 0.2]
    assert (objective["queue"], objective["width"], objective["bottleneck"]) == (65_536, 1024, 512)
    chosen = {"name": "", "objective": {}, "readout": {}, "space": {}}
    for recipe in BASELINES:
        assert load_run(recipe).table | chosen == base | chosen
    assert load_run("declip-fdt-vit-b32").table["readout"] == load_run("fdt-vit-b32").table["readout"]
    assert load_run("declip-fdt-vit-b32").table["objective"] == objective
    for recipe, tower in DECLIP_TOWERS.items():
        table, chosen = load_run(recipe).table, {"name": "", "image": {}}
        assert table | chosen == load_run("declip-fdt-vit-b32").table | chosen
        assert table["image"] == load_run(tower).table["image"]


def test_swins_differ_from_fdts_vit_in_the_image_tower_and_from_each_other_in_the_readout_alone() -> None:
    """Chen et al. 2023, Table 6; Swin-B as Liu et al. 2021 have it, at 224 px."""
    base = load_run("fdt-vit-b32").table
    chosen = {"name": "", "image": {}, "readout": {}}
    for recipe in SWINS:
        assert load_run(recipe).table | chosen == base | chosen
    table = load_run("fdt-swin-b").table
    assert table["readout"] == base["readout"]
    assert load_run("clip-swin-b").table["readout"]["name"] == "class_token"
    image = table["image"]
    assert (image["patch"], image["width"], image["window"]) == (4, 128, 7)
    assert (image["layers"], image["heads"]) == ([2, 2, 18, 2], [4, 8, 16, 32])


@pytest.mark.parametrize("recipe", builtin_recipes())
def test_every_recipe_knows_its_papers_and_says_how_to_run_it(recipe: str) -> None:
    assert "radford2021clip" in bibliography(load_run(recipe).run)
    assert load_run(recipe).run.name == recipe
