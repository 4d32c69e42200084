"""Every claim is what a run can answer: rows that resolve, rules that name them, as many trials for all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from equipoise.citations import references
from equipoise.claims import CLAIMS, FIRST, find_claim
from equipoise.claims.claim import GPU, SCALES, SMALL, Claim, Row
from equipoise.claims.metric import METRICS
from equipoise.claims.result import Result, RowResult, read_result, verdict_of
from equipoise.claims.rule import HOLDS, NO_VERDICT, NOT_RUN, NOT_TESTABLE
from equipoise.claims.topology import GEODESIC, INNER, SPHERE, learned
from equipoise.config import Run, load_layers, load_run
from equipoise.finetuning.layers import finetuning_layers
from equipoise.models.logit_scale import unit_free
from equipoise.types import UserError
from equipoise.workflows.claims.cell import cell_of

TESTED = {name: claim for name, claim in CLAIMS.items() if claim.rows}


def resolved(row: Row, trial: tuple[str, ...], scale: str) -> Run:
    cell = cell_of(row, trial, 3, scale)
    if not row.start:
        return load_run(cell.recipe, cell.settings).run
    assert cell.start
    start = load_run(cell.start.recipe, cell.start.settings).table
    return load_layers(*finetuning_layers("start", start, cell.recipe, row.method, cell.settings)).run


def test_there_are_enough_and_the_first_are_among_them() -> None:
    assert len(CLAIMS) >= 24
    assert len(TESTED) >= 18
    assert len({claim.paper for claim in CLAIMS.values()} - {""}) >= 4
    assert len(FIRST) == 8
    assert set(FIRST) <= set(TESTED)


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_says_where_it_stands_and_what_decides_it(name: str) -> None:
    claim = CLAIMS[name]
    assert not claim.paper or claim.paper in references()
    assert claim.where
    assert claim.says.endswith(".")
    assert bool(claim.not_testable) != bool(claim.rows)
    assert bool(claim.rows) == bool(claim.parts)
    assert len({row.name for row in claim.rows}) == len(claim.rows)
    assert len({len(row.sweep) for row in claim.rows}) <= 1, "all rows have as many trials"
    for rule in (*claim.parts, *claim.preconditions):
        assert rule.metric in METRICS
        for row, _ in rule.weights:
            claim.row(row)
    assert {*claim.metrics, claim.chooses} <= set(METRICS)
    if claim.curves:
        rows = {row for _, points in claim.curves.lines for _, row in points} | {*sum(claim.curves.gains, ())}
        assert rows | {*claim.curves.trials, *claim.curves.levels} <= {row.name for row in claim.rows}
        assert not (claim.curves.gains or claim.curves.trials) or claim.curves.across in claim.metrics


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", TESTED)
def test_every_row_is_a_valid_run(name: str, scale: str) -> None:
    for row in TESTED[name].rows:
        for trial in row.sweep:
            run = resolved(row, trial, scale)
            assert run.seed == 3
            assert run.training.steps <= (100 if scale == SMALL else 1500)


def test_the_same_run_of_several_claims_is_one_cell() -> None:
    base = cell_of(CLAIMS["cleaning-pays"].row("all pairs"), (), 0, GPU)
    assert cell_of(CLAIMS["space-order"].row("sphere"), (), 0, GPU) == base
    assert cell_of(CLAIMS["codes-beat-clip"].row("CLIP"), (), 0, GPU) == base
    assert cell_of(CLAIMS["softclip-beats-clip"].row("CLIP"), (), 0, GPU) == base
    assert cell_of(CLAIMS["codes-beat-clip"].row("CLIP"), (), 1, GPU).name != base.name
    assert cell_of(CLAIMS["codes-beat-clip"].row("CLIP"), (), 0, SMALL).name != base.name


def test_spaces_start_with_logits_that_spread_alike() -> None:
    spreads = []
    for name in (SPHERE, GEODESIC, INNER):
        run = resolved(learned(name), (), GPU)
        spreads.append(unit_free(run.temperature.within(run.space).start, run.space))
    assert spreads == pytest.approx([spreads[0]] * 3, abs=0.01)


def test_what_is_fine_tuned_starts_from_a_recipe_as_it_is() -> None:
    starts = {row.start for claim in TESTED.values() for row in claim.rows if row.start}
    (start,) = (cell_of(row, (), 0, GPU).start for row in TESTED["m2-simat"].rows[:1])
    assert start
    assert sum(one.recipe == start.recipe for one in starts) == 1, "one for all claims on scenes, trained once a seed"
    run, own = load_run(start.recipe, start.settings).run, load_run("clip-scenes-gpu").run
    assert replace(run, training=own.training) == own
    kept = ("checkpoint_every", "checkpoint_minutes", "loggers", "log_every")
    assert replace(run.training, **{name: getattr(own.training, name) for name in kept}) == own.training


def test_doses_differ_by_the_gap_alone_and_few_shots_are_tested_on_other_shifts() -> None:
    amounts = {row.name: resolved(row, (), GPU).shift.amount for row in TESTED["m2-dose-response"].rows}
    assert sorted(set(amounts.values())) == [-1.0, -0.5, 0.0]
    assert amounts["m², λ = -1"] == amounts["FT, λ = -1"] == -1.0
    shots = resolved(TESTED["m2-under-shift"].row("FT"), (), GPU).data
    assert shots.of.shift == "rotation"  # type: ignore[union-attr]
    assert shots.shifted_by == ("texture", "background", "hue")  # type: ignore[union-attr]


def test_an_unknown_name_is_one_sentence_with_what_was_meant() -> None:
    with pytest.raises(UserError, match="did you mean cleaning-pays"):
        find_claim("cleaning-pay")
    with pytest.raises(UserError, match="equipoise claims"):
        find_claim("zzz")


def result_of(name: str, claim: Claim, scale: str = GPU, gain: float = 5.0) -> Result:
    """A result in which every later row is better."""
    rows = {
        row.name: RowResult(
            (), (), {metric: [20 + gain * place + seed for seed in range(5)] for metric in claim.metrics}
        )
        for place, row in enumerate(claim.rows)
    }
    return Result(name, scale, claim.fingerprint(), rows, "equipoise claims run", "2026-01-01")


def test_verdicts_follow_from_results_of_the_same_rule_and_of_the_scale_gpu() -> None:
    claim = CLAIMS["smoothing-helps"]
    assert verdict_of(claim, result_of("smoothing-helps", claim)).word == HOLDS
    assert verdict_of(claim, None).word == NOT_RUN
    small = verdict_of(claim, result_of("smoothing-helps", claim, SMALL))
    assert (small.word, "never a verdict" in small.why) == (NO_VERDICT, True)
    assert verdict_of(CLAIMS["multi-at-scale"], None).word == NOT_TESTABLE
    other = result_of("smoothing-helps", CLAIMS["space-order"])
    assert verdict_of(claim, other).word == NO_VERDICT, "its rule was another"


def test_a_result_comes_back_from_its_file_and_a_broken_one_is_a_sentence(tmp_path: Path) -> None:
    result, path = result_of("smoothing-helps", CLAIMS["smoothing-helps"]), tmp_path / "a.json"
    result.write(path)
    again = read_result(path)
    assert again.values == result.values
    assert verdict_of(CLAIMS["smoothing-helps"], again).word == HOLDS
    table = json.loads(path.read_text())
    for broken in (
        {},
        {**table, "rows": 3},
        {**table, "claim": None},
        {**table, "more": 1},
        {**table, "rows": {"a": {}}},
    ):
        path.write_text(json.dumps(broken))
        with pytest.raises(UserError, match=r"a\.json is not the result of a claim"):
            read_result(path)
