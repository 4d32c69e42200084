"""The parts of fine-tuning by themselves: weights in between, beginnings, layers of settings, what is said."""

from __future__ import annotations

import pytest
import torch
from small_coca import DECODER, small_coca
from small_model import objective_named, small_model, small_resnet_model

from equipoise.config import load_layers, load_run
from equipoise.finetuning.comparison import Comparison
from equipoise.finetuning.layers import FOLDER, finetuning_layers
from equipoise.finetuning.methods import METHODS
from equipoise.finetuning.settings import Finetuning
from equipoise.finetuning.wise_ft import interpolate_weights
from equipoise.heads import CaptionHead
from equipoise.models.warm_start import load_start_weights
from equipoise.settings.recipe import header
from equipoise.spaces import Sphere
from equipoise.types import Notice, UserError


def test_between_is_the_paper_read_aloud():
    make = torch.Generator().manual_seed(0)
    start, end = ({"a.weight": torch.randn(3, 2, generator=make).double()} for _ in range(2))
    for share in (0.0, 0.1, 0.5, 0.9, 1.0):
        got = interpolate_weights(start, end, share)["a.weight"]
        for row in range(3):
            for col in range(2):
                expected = (1 - share) * float(start["a.weight"][row, col]) + share * float(end["a.weight"][row, col])
                assert float(got[row, col]) == pytest.approx(expected, abs=1e-15)


def test_both_ends_and_what_did_not_change_are_exact():
    model = small_resnet_model().float()
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    end = {name: tensor + 1 if name.startswith("image") else tensor for name, tensor in start.items()}
    assert all(
        torch.equal(interpolate_weights(start, end, 0.0)[name], start[name]) for name in start if "tracked" not in name
    )
    assert all(torch.equal(interpolate_weights(start, end, 1.0)[name], end[name]) for name in start)
    assert all(
        torch.equal(interpolate_weights(start, end, 0.3)[name], start[name])
        for name in start
        if name.startswith("text")
    )
    counter = "image_encoder.stem.bn1.num_batches_tracked"
    assert torch.equal(
        interpolate_weights(start, end, 0.3)[counter], end[counter]
    )  # there is no such thing as half a batch


def test_heads_are_those_of_the_end():
    heads = objective_named("mixed").heads
    start, end = small_model(heads=heads).state_dict(), small_model(heads=heads).state_dict()
    end = {name: tensor + 1 for name, tensor in end.items()}
    name = "heads.m2_scale.log_scale"
    assert torch.equal(interpolate_weights(start, end, 0.25)[name], end[name])
    assert torch.equal(interpolate_weights(start, end, 0.25)["logit_scale"], start["logit_scale"] + 0.25)


def test_weights_of_different_models_are_not_mixed():
    with pytest.raises(UserError, match="two different models cannot be mixed: they differ in b"):
        interpolate_weights({"a": torch.ones(1)}, {"a": torch.ones(1), "b": torch.ones(1)}, 0.5)


def test_a_model_begins_with_anothers_weights_but_for_heads():
    start = {name: tensor + 1 for name, tensor in small_model(bias=-3.0).state_dict().items()}
    model = small_model(heads=objective_named("mixed").heads)
    own = model.state_dict()["heads.m2_scale.log_scale"].clone()
    load_start_weights(model, start, "runs/start")  # a new head, and a bias that goes
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, own if name.startswith("heads.") else start[name])
    load_start_weights(small_model(), model.state_dict(), "runs/start")


def test_a_model_of_another_shape_does_not_begin():
    model = small_model(Sphere(8))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(UserError, match=r"not that of runs/start: image_readout.projection is 16×16, not 16×8"):
        load_start_weights(model, small_model().state_dict(), "runs/start")
    assert all(torch.equal(before[name], now) for name, now in model.state_dict().items())


def test_whose_settings_count_where():
    start = load_run("scenes-ps-64x8", ["image.width=48", "data.train_size=77", "training.ema=0.5", "seed=9"]).table
    more = ("training.batch_size=32", "objective.name=m3mix")
    run = load_layers(*finetuning_layers("runs/start", start, "flickr8k", "lora", more)).run
    assert (run.image.width, run.space.n, run.space.m) == (48, 64, 8)  # the model's
    assert run.data == load_run("flickr8k").run.data
    assert run.preprocess.size == start["preprocess"]["size"]
    assert (run.training.ema, run.seed) == (0.0, 0)  # of the start's run, not of its model
    assert (run.lora.rank, run.training.trains, run.training.evaluate_start) == (8, "added", True)
    assert run.training.batch_size == 32
    assert (run.finetuning.start, run.finetuning.method, run.name) == ("runs/start", "lora", "lora")
    assert run.objective.mixes


def test_a_method_that_is_not_there_is_said():
    with pytest.raises(UserError, match=r'there is no method "wiseft".*wise-ft'):
        finetuning_layers("runs/start", {}, "demo", "wiseft", ())


def test_every_method_has_its_settings_and_they_say_what_they_are():
    assert {path.stem for path in FOLDER.glob("*.toml")} == {"base", *METHODS}
    for name in METHODS:
        assert header(FOLDER / f"{name}.toml")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tau": -1.0}, "tau must be positive, or 0"),
        ({"shares": ()}, "at least one"),
        ({"shares": (0.5, 1.5)}, "from 0 to 1"),
    ],
)
def test_bad_settings_are_said(settings, said):
    with pytest.raises(UserError, match=said):
        Finetuning(**settings)


def comparison(*scores: float) -> Comparison:
    return Comparison("runs/start", "wise-ft", "mean_recall", 0.5, (0.0, 0.5, 1.0), scores, {})


def test_of_equal_scores_the_nearest_to_the_start_is_kept():
    assert comparison(0.5, 0.6, 0.6).chosen == 0.5
    assert comparison(0.5, 0.4, 0.5).chosen == 0.0
    assert not comparison(0.5, 0.4, 0.5).is_better  # as good is not better
    assert Comparison.from_json(comparison(0.5, 0.6, 0.4).to_json()) == comparison(0.5, 0.6, 0.4)


def test_a_mixup_needs_geodesics_before_anything_is_made():
    with pytest.raises(UserError, match="mixes points along geodesics"):
        load_run("filip-scenes", ["objective.name=m3mix"])
    off = ["objective.name=m3mix", *(f"objective.{term}_weight=0.0" for term in ("m2", "v", "l", "vl"))]
    assert not load_run("filip-scenes", off).run.objective.mixes


def test_a_captioner_that_is_tuned_goes_on_writing():
    settings = load_run("coca-scenes").table
    for method, where in (("ft", ()), ("wise-ft", ()), ("lora", ()), ("m2mix", ("of",)), ("un-mix", ("of",))):
        objective = load_layers(*finetuning_layers("runs/coca", settings, "clip-scenes", method, ())).table["objective"]
        for key in where:
            objective = objective[key]
        assert objective["name"] == "coca", method
        assert objective["decoder"]["layers"] == 2
    mixed = load_run("coca-m2-scenes").table
    plain = load_layers(*finetuning_layers("runs/coca", mixed, "clip-scenes", "ft", ())).table["objective"]
    assert (plain["name"], plain["decoder"]["heads"]) == ("coca", 2)
    chosen = finetuning_layers("runs/coca", settings, "clip-scenes", "ft", ["objective.name=clip"])
    assert load_layers(*chosen).table["objective"]["name"] == "clip"
    other = load_layers(*finetuning_layers("runs/demo", load_run("demo").table, "clip-scenes", "ft", ()))
    assert other.table["objective"]["name"] == "clip"


def test_a_decoder_of_captions_is_kept_or_dropped_aloud():
    start = small_coca(seed=1)
    model = small_coca(seed=2)
    load_start_weights(model, start.state_dict(), "runs/coca")
    assert torch.equal(model.heads["caption"].words, start.heads["caption"].words)
    with pytest.warns(Notice, match="captions"):
        load_start_weights(small_coca(heads={}), start.state_dict(), "runs/coca")
    with pytest.raises(UserError, match=r"heads\.caption"):
        load_start_weights(small_coca(heads={"caption": CaptionHead.Config(3, 2)}), start.state_dict(), "runs/coca")
    load_start_weights(small_coca(heads={"caption": DECODER}), small_coca(heads={}).state_dict(), "runs/clip")


def test_a_decoder_of_captions_lies_between_both_ends():
    start, end = (small_coca(seed=seed).state_dict() for seed in (1, 2))
    name = "heads.caption.words"
    torch.testing.assert_close(interpolate_weights(start, end, 0.25)[name], 0.75 * start[name] + 0.25 * end[name])
    assert torch.equal(interpolate_weights(start, end, 0.0)[name], start[name])
