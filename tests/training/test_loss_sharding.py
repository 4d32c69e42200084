"""Which way several ranks compare their points: what auto takes, and what is refused before anything is made."""

from __future__ import annotations

import pytest

from equipoise.config import load_run
from equipoise.objectives import CLIP, OBJECTIVES, Objective
from equipoise.training.distributed.loss_sharding import choose_loss_sharding
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.settings import Training
from equipoise.types import UserError


def made(objective: Objective | type[Objective]) -> Objective:
    return objective() if isinstance(objective, type) else objective


@pytest.mark.parametrize(
    ("objective", "batch_size", "world", "exchange"),
    [
        ("clip", 32_768, 1, "everything"),  # there is nobody to share with
        ("clip", 256, 8, "everything"),
        ("clip", 32_768, 8, "gathered"),
        ("clip", 1_048_576, 8, "ring"),
        ("softclip", 65_536, 8, "ring"),  # guides travel with the texts
        ("filip", 4096, 2, "gathered"),
        ("declip", 32_768, 8, "everything"),  # its other terms look at all points
    ],
)
def test_auto_goes_by_the_settings(objective, batch_size, world, exchange):
    settings = Training(batch_size=batch_size)
    found = choose_loss_sharding(settings, made(OBJECTIVES[objective]), Ranks(0, world), dim=512)
    assert found == exchange


def test_what_is_asked_for_is_taken():
    for way in ("ring", "gathered", "everything"):
        assert choose_loss_sharding(Training(exchange=way), CLIP(), Ranks(0, 2), dim=8) == way


def test_objectives_that_only_contrast_can_be_divided():
    divisible = {name for name, objective in OBJECTIVES.items() if made(objective).divisible}
    plain = {"clip", "clip_smoothed", "clip_soft", "clip_soft_relation", "softclip", "crcl", "filip"}
    assert divisible == plain | {"cyclip"}  # whose further terms are sums over samples, or over pairs of them


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (("training.exchange=circle",), "exchange must be one of auto, gathered, ring, everything, not 'circle'"),
        (
            ("training.exchange=ring", "objective.name=slip"),
            "training.exchange is ring, but the objective SLIP .* cannot be divided among processes; set "
            "training.exchange to auto or everything",
        ),
    ],
)
def test_refused_in_a_sentence(settings, sentence):
    with pytest.raises(UserError, match=sentence):
        load_run("clip-scenes", settings)
