"""Each way of fine-tuning: what it moves, what is kept of it, and that a stop changes nothing."""

from __future__ import annotations

import pytest
import torch
from finetune_runs import ended, same, stop, trained, tuned, weights

from equipoise.models.folder import step_folders
from equipoise.workflows import load

MIXED = "objective.name=m3mix"
WAYS = {
    "wise-ft": (),
    "lp-ft": (MIXED,),
    "lora": (MIXED, "lora.rank=2", "training.ema=0.9"),
    "m2mix": ("training.micro_batch=8",),
}


OTHERS = [pytest.param(*run, marks=pytest.mark.slow) for run in (("lp-ft", 4), ("lp-ft", 5), ("m2mix", 4))]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "stops"), [("lora", 5), *OTHERS])
def test_stopped_and_resumed_bit_for_bit(tmp_path, finished_run, monkeypatch, method, stops):
    """LP-FT changes what it trains after step 4 of 8; m³-Mix goes with it, and with LoRA."""
    whole, logged = trained(finished_run, tmp_path / "whole", method, *WAYS[method])
    with monkeypatch.context() as patch:
        stop(patch, stops)
        trained(finished_run, tmp_path / "parts", method, *WAYS[method])
    assert step_folders(tmp_path / "parts")[-1].name == f"step-{stops:08d}"
    again, relogged = trained(tmp_path / "parts" / "start", tmp_path / "parts", method, *WAYS[method])
    assert relogged == logged
    assert same(again, whole)


def test_probing_first_moves_the_readouts_alone(tmp_path, finished_run):
    _, logged = trained(finished_run, tmp_path, "lp-ft", "training.checkpoint_every=4", "training.evaluate_every=0")
    before, half, end = (
        weights(finished_run),
        *(weights(tmp_path / "checkpoints" / f"step-0000000{n}") for n in (4, 8)),
    )
    moved = {name for name, now in half.items() if not torch.equal(now, before[name])}
    assert moved == {"image_readout.projection", "text_readout.projection"}
    assert all(not torch.equal(end[name], half[name]) for name in end if name not in ("logit_scale",))
    rates = {record["step"]: record["learning_rate"] for record in logged if "learning_rate" in record}
    assert rates[2] == pytest.approx(1e-2)
    assert rates[6] == pytest.approx(3e-3)


def test_what_is_kept_is_the_place_between_that_scored_best(tmp_path, finished_run):
    settled = ended(finished_run, tmp_path, "wise-ft", "finetuning.shares=[0.3]", "training.evaluate_every=0")
    assert settled.comparison.is_better
    assert settled.comparison.chosen == 0.3
    end = weights(tmp_path / "checkpoints" / "step-00000008")
    for name, first in weights(finished_run).items():
        torch.testing.assert_close(settled.model.state_dict()[name], 0.7 * first + 0.3 * end[name], rtol=0, atol=1e-6)


@pytest.mark.slow
def test_plain_fine_tuning_takes_another_temperature(tmp_path, finished_run):
    settled = ended(finished_run, tmp_path, "ft", "finetuning.tau=0.05", "training.steps=30")
    assert settled.comparison.shares == (1.0,)
    assert settled.comparison.is_better
    assert settled.model.logit_scale.exp().item() == pytest.approx(20)
    assert set(settled.comparison.numbers["test"]) == {"start", "tuned"}


def test_lora_ends_as_a_plain_model_with_the_start_models_names(tmp_path, finished_run):
    settled = ended(finished_run, tmp_path, "lora", "lora.rank=2", "training.learning_rate=1e-2")
    assert settled.comparison.is_better
    kept, before, best = settled.model.state_dict(), weights(finished_run), tmp_path / "checkpoints" / "best"
    assert set(kept) == set(before)
    assert any(name.endswith(".adapter.up") for name in weights(best))
    assert set(load(best).state_dict()) == set(before)  # a checkpoint keeps adapters, and loads without them
    assert settled.comparison.numbers["validation"]["tuned"]["mean_recall"] > settled.comparison.before
    changed = {name for name, now in kept.items() if not torch.equal(now, before[name])}
    assert changed
    assert all(name.startswith(("image_encoder.", "text_encoder.")) for name in changed)


PROMPTED = ("prompts.depth=1", "training.learning_rate=0")


@pytest.mark.slow
def test_prompts_that_do_not_help_are_not_kept(tmp_path, finished_run):
    """Untrained prompts are no start model: the folder that remains is the start, without them."""
    told = tuned(finished_run, tmp_path / "maple", "maple", *PROMPTED)
    kept = load(tmp_path / "maple")
    assert kept.prompts is None
    assert same(kept.state_dict(), weights(finished_run))
    assert told["numbers"]["test"]["chosen"]["mean_recall"] == told["numbers"]["test"]["start"]["mean_recall"]


def test_prompts_are_all_that_maple_trains(tmp_path, finished_run):
    settled = ended(finished_run, tmp_path, "maple", "prompts.depth=1", "training.learning_rate=3e-2")
    end, before = weights(tmp_path / "checkpoints" / "step-00000008"), weights(finished_run)
    assert same({name: end[name] for name in before}, before)
    assert all(name.startswith("prompts.") for name in set(end) - set(before))
    assert "tuned" in settled.comparison.numbers["test"]


@pytest.mark.parametrize("method", ["i-mix", "un-mix"])
def test_mixed_pictures_move_everything(tmp_path, finished_run, method):
    end, _ = trained(finished_run, tmp_path, method)
    before = weights(finished_run)
    assert set(end) == set(before)
    assert all(not torch.equal(end[name], before[name]) for name in end if name != "logit_scale")


def test_embedding_shift_moves_points_and_no_weights(tmp_path, finished_run):
    told = tuned(finished_run, tmp_path / "shifted", "embedding-shift")
    model, before = load(tmp_path / "shifted"), weights(finished_run)
    assert same({name: tensor for name, tensor in model.state_dict().items() if name in before}, before)
    assert (tmp_path / "shifted" / "shift.json").is_file()
    scores = told["numbers"]["validation"]
    moved = model.shift is not None
    assert moved == (scores["tuned"]["mean_recall"] > scores["start"]["mean_recall"])
