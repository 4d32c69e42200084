"""Cells of claims: trained once, shared, resumed; trials chosen on validation data; verdicts, figures and pages."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tiny_claim
import torch
from claims_page import PAGE, with_claims
from tiny_claim import BASE, CLAIM, TINY

from equipoise.claims import CLAIMS
from equipoise.claims.claim import GPU, SMALL, Claim, Curves, Row, Start
from equipoise.claims.metric import METRICS
from equipoise.claims.result import Result, RowResult, read_result, verdict_of
from equipoise.claims.rule import HOLDS, NO_VERDICT, NOT_RUN, ahead
from equipoise.cli import main
from equipoise.models.embedding_shift import shifted
from equipoise.objectives.mixup.m2mix import mixed_above
from equipoise.spaces import Sphere
from equipoise.types import UserError
from equipoise.workflows.claims import listing, plan
from equipoise.workflows.claims.cell import CELLS, Cell, as_text, cell_of
from equipoise.workflows.claims.listing import judgements
from equipoise.workflows.claims.make import Ways, make_cell
from equipoise.workflows.claims.pool import side_by_side
from equipoise.workflows.claims.report import report_claims
from equipoise.workflows.claims.run import run_claims
from equipoise.workflows.claims.show import curve_series, drawn, level_lines

HERE = Path(__file__).parent


def written(cell: Cell, folder: Path, test: float, validation: float = 0.0, **more: object) -> None:
    """A cell as if it had been trained."""
    found = {
        f"{split}/retrieval/{way}_R@1": value
        for split, value in (("test", test), ("validation", validation))
        for way in ("image_to_text", "text_to_image")
    }
    facts = {"found": found, "date": "2026-01-02", "commit": "abc", "version": "0", "device": "cpu", "seconds": 1.0}
    cell.file(folder).parent.mkdir(parents=True, exist_ok=True)
    cell.file(folder).write_text(as_text({**facts, **more}))


def cells_of(folder: Path) -> dict[str, dict]:
    """What the files of all cells hold, but for the time they took."""
    found = {path.name: json.loads(path.read_text()) for path in sorted((folder / CELLS).glob("*.json"))}
    return {name: {key: value for key, value in one.items() if key != "seconds"} for name, one in found.items()}


def test_trials_are_chosen_by_validation_and_reported_by_test(tmp_path: Path) -> None:
    first, second = BASE.sweep
    for seed in range(2):
        written(cell_of(BASE, first, seed, GPU), tmp_path, test=0.9, validation=0.1)
        assert plan.choose(CLAIM, BASE, GPU, 5, tmp_path)[0] is None, "not before all trials are there"
        written(cell_of(BASE, second, seed, GPU), tmp_path, test=0.2, validation=0.3)
    trial, told = plan.choose(CLAIM, BASE, GPU, 5, tmp_path)
    assert trial == second
    assert [one["validation"] for one in told] == pytest.approx([10.0, 30.0])
    row = plan.gathered("tiny", CLAIM, GPU, 5, tmp_path).rows["base"]
    assert row.values["R@1"] == [pytest.approx(20.0)] * 2 + [None] * 3
    assert row.chosen == second


def test_a_figure_of_trials_has_the_place_of_each(tmp_path: Path) -> None:
    shown = dataclasses.replace(CLAIM, curves=Curves("t", trials=(BASE.name,)))
    for place, trial in enumerate(BASE.sweep):
        for seed in range(2):
            written(cell_of(BASE, trial, seed, GPU), tmp_path, test=0.9, validation=0.1 * place + 0.2 * seed)
            file = cell_of(BASE, trial, seed, GPU).file(tmp_path)
            content = json.loads(file.read_text())
            file.write_text(as_text({**content, "found": {**content["found"], "t": place + seed}}))
    told = plan.gathered("tiny", shown, GPU, 2, tmp_path).rows[BASE.name].trials
    assert [one["place"] for one in told] == [0.5, 1.5]
    assert told[1]["seeds"] == pytest.approx([10.0, 30.0])
    assert curve_series(shown, plan.gathered("tiny", shown, GPU, 2, tmp_path))[BASE.name][1][:2] == pytest.approx(
        (1.5, 20.0)
    )


def test_a_trial_that_diverged_is_out(tmp_path: Path) -> None:
    first, second = BASE.sweep
    for seed in range(2):
        written(cell_of(BASE, first, seed, GPU), tmp_path, test=0.1, validation=0.1)
        written(cell_of(BASE, second, seed, GPU), tmp_path, test=0.9, validation=0.9)
    written(cell_of(BASE, second, 1, GPU), tmp_path, 0.0, failed="the loss became nan", found={})
    trial, told = plan.choose(CLAIM, BASE, GPU, 5, tmp_path)
    assert trial == first
    assert told[1]["validation"] is None


def test_all_seeds_of_the_chosen_trials_and_a_verdict(tmp_path: Path) -> None:
    for row, gain in zip(CLAIM.rows, (0.0, 0.2), strict=True):
        for cell in (cell_of(row, trial, seed, GPU) for trial in row.sweep for seed in range(5)):
            written(cell, tmp_path, test=0.3 + gain + cell.seed / 100)
    result = plan.gathered("tiny", CLAIM, GPU, 5, tmp_path)
    verdict = verdict_of(CLAIM, result)
    assert verdict.word == HOLDS
    assert verdict.parts[0].mean == pytest.approx(20.0)
    assert (result.date, result.commits, result.cells) == ("2026-01-02", ("abc",), 10)
    assert result.command == "equipoise claims run tiny --scale gpu --seeds 5"
    fewer = plan.gathered("tiny", CLAIM, GPU, 4, tmp_path)
    assert verdict_of(CLAIM, fewer).word == NO_VERDICT


def test_small_has_one_trial_and_cells_of_its_own() -> None:
    assert plan.tuning([CLAIM], SMALL, 5) == []
    assert plan.trials_of(BASE, SMALL) == (BASE.sweep[1],)
    row = dataclasses.replace(BASE, small=("training.steps=1",))
    assert "training.steps=1" in cell_of(row, (), 0, SMALL).settings
    assert "training.steps=2" in cell_of(row, (), 0, GPU).settings


def test_the_plan_counts_what_claims_share_once() -> None:
    twice = dataclasses.replace(CLAIM, rows=(*CLAIM.rows, BASE.plus("again")))
    assert len(plan.tuning([CLAIM, twice], GPU, 5)) == 2 * 2 * 2
    assert plan.count([CLAIM], GPU, 5) == CLAIM.cells(5) == 2 * (2 * 2 + 3)


def test_a_claim_is_whole_before_the_trials_of_the_last_are(tmp_path: Path) -> None:
    other = dataclasses.replace(CLAIM, rows=tuple(row.plus(row.name, "data.zoom=1.5") for row in CLAIM.rows))
    claims, begun = [CLAIM, other], set[Cell]()

    def begin() -> Cell:
        cell = plan.next_cell(claims, GPU, 5, tmp_path, begun)
        assert cell
        begun.add(cell)
        return cell

    trials = [begin() for _ in range(8)]
    assert trials == plan.tuning([CLAIM], GPU, 5)
    assert begin() in plan.tuning([other], GPU, 5), "while the trials of the first are on their way"
    for cell in trials:
        written(cell, tmp_path, test=0.3, validation=0.3)
    further = [begin() for _ in range(6)]
    assert {cell.seed for cell in further} == {2, 3, 4}
    assert set(further) <= set(plan.reported([CLAIM], GPU, 5, tmp_path)), "and then the first claim's other seeds"
    assert begin() in plan.tuning([other], GPU, 5)


def test_what_needs_a_start_waits_for_it_and_others_go_on(tmp_path: Path) -> None:
    tuned = BASE.plus("tuned")
    tuned = dataclasses.replace(tuned, kind="finetune", method="ft", start=Start("demo", ("training.steps=2",)))
    claims, begun = [dataclasses.replace(CLAIM, rows=(tuned,)), CLAIM], set[Cell]()
    first = plan.next_cell(claims, GPU, 1, tmp_path, begun)
    assert first
    assert first.kind == "start"
    begun.add(first)
    second = plan.next_cell(claims, GPU, 1, tmp_path, begun)
    assert second
    assert second.start is None, "of the other claim"


def test_a_cell_is_a_real_run_with_its_facts(tmp_path: Path) -> None:
    cell = cell_of(BASE, BASE.sweep[0], 1, GPU)
    assert make_cell(cell, tmp_path, "cpu", "abc") == ""
    told = cell.read(tmp_path)
    assert told
    assert {"seed=1", "data.seed=1", "training.learning_rate=1e-3"} <= set(told["settings"])
    assert (told["commit"], told["device"], told["kind"]) == ("abc", "cpu", "train")
    found = told["found"]
    told_of = {"validation/retrieval/text_to_image_R@1", "test/matching/image_to_text_mAP@R", "t",
               "logit_scale/unit_free_t", "test/completeness/object left out", "log/batch/texts_above"}  # fmt: skip
    assert told_of <= set(found)
    right = dataclasses.replace(cell, kind="right_pairs")
    assert make_cell(right, tmp_path, "cpu", "abc") == ""
    assert right.read(tmp_path)["found"] != found, "it trains on other pairs"  # type: ignore[index]


def test_a_cell_that_is_explained_says_where_the_model_looks(tmp_path: Path) -> None:
    plain, explained = (cell_of(dataclasses.replace(BASE, kind=kind), (), 1, GPU) for kind in ("train", "explained"))
    for cell in (plain, explained):
        assert make_cell(cell, tmp_path, "cpu", "abc") == ""
    own, further = (cell.read(tmp_path)["found"] for cell in (plain, explained))  # type: ignore[index]
    assert {key: value for key, value in further.items() if not key.startswith("explain/")} == own
    assert further["explain/cam_by_name"] == further["explain/cam_pointing"] - further["explain/cam_pointing_other"]
    assert further["explain/pointing_above_cam"] == further["explain/pointing"] - further["explain/cam_pointing"]
    assert 0 < further["explain/pointing"] < 1
    assert "explain/decoupling" not in further  # of several class tokens alone


def test_a_mistake_in_a_cell_is_a_sentence_and_leaves_no_file(tmp_path: Path) -> None:
    cell = cell_of(BASE.plus("wrong", "space.dim=-3"), (), 0, GPU)
    assert "dim" in make_cell(cell, tmp_path, "cpu", "")
    assert not cell.is_done(tmp_path)
    without_start = dataclasses.replace(cell, kind="finetune")
    assert "AssertionError" in make_cell(without_start, tmp_path, "cpu", ""), "the other cells go on"


def test_a_run_that_diverges_is_written_down_as_such(tmp_path: Path) -> None:
    cell = cell_of(
        BASE.plus("wild", "training.learning_rate=1e30", "training.steps=6", "training.clip_norm=0"), (), 0, GPU
    )
    assert make_cell(cell, tmp_path, "cpu", "") == ""
    assert "became" in cell.read(tmp_path)["failed"]  # type: ignore[index]


def test_claims_on_photographs_need_their_features_and_read_them_where_they_lie(tmp_path: Path) -> None:
    row = CLAIMS["photos-cleaning-pays"].row("all pairs")
    with pytest.raises(UserError, match=r"photos-cleaning-pays needs .*--features is not given"):
        run_claims(["photos-cleaning-pays"], out=tmp_path / "none")
    rng = np.random.default_rng(0)
    for name, count in (("train", 32), ("validation", 8), ("test", 8)):
        arrays = {"image": rng.normal(size=(count, 1280)), "text": rng.normal(size=(count, 5, 384))}
        np.savez(tmp_path / f"{name}.npz", **{key: value.astype(np.float32) for key, value in arrays.items()})
    cell = cell_of(row, (), 0, SMALL)
    assert make_cell(cell, tmp_path, "cpu", "", {"features": tmp_path}) == ""
    told = cell.read(tmp_path)
    assert told
    assert "data.train={features}/train.npz" in told["settings"], "a cell does not say where its data lay"
    assert {"test/retrieval/text_to_image_R@1", "t", "logit_scale/unit_free_t"} <= set(told["found"])
    (tmp_path / "test.npz").unlink()
    with pytest.raises(UserError, match=r"has no test\.npz"):
        run_claims(["photos-cleaning-pays"], out=tmp_path / "none", folders={"features": tmp_path})
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_a_code_book_and_cleaning_are_measured_too(tmp_path: Path) -> None:
    book = BASE.plus("codes", "readout.name=code_book", "readout.codes=16")
    cell = cell_of(book, (), 0, GPU)
    assert make_cell(cell, tmp_path, "cpu", "") == ""
    found = cell.read(tmp_path)["found"]  # type: ignore[index]
    assert {"test/weights/text_to_image_R@1", "end/codes/active_image", "agreement_gain"} <= set(found)
    cell = cell_of(CLAIMS["held-out-judges"].row("kept"), (), 0, SMALL)
    assert make_cell(cell, tmp_path, "cpu", "") == ""
    assert "judged/wrong_among_kept" in cell.read(tmp_path)["found"]  # type: ignore[index]


@pytest.mark.slow
def test_a_start_is_trained_once_and_fine_tuned(tmp_path: Path) -> None:
    row = Row("FT", "demo", (*TINY, "finetuning.wise=false", "data.shift=rotation"), kind="finetune", method="ft",
              start=Start("demo", TINY))  # fmt: skip
    row = dataclasses.replace(row, settings=tuple(text for text in row.settings if ".layers" not in text))
    claim = Claim("", "a test", "x.", rows=(row,), parts=(ahead("FT", "FT"),))
    (start,) = plan.starts([claim], GPU, 1)
    assert make_cell(start, tmp_path, "cpu", "") == ""
    assert start.is_done(tmp_path)
    cell = cell_of(row, (), 0, GPU)
    assert cell.start == start
    assert make_cell(cell, tmp_path, "cpu", "") == ""
    found = cell.read(tmp_path)["found"]  # type: ignore[index]
    told_of = {"test/tuned/text_to_image_R@1", "former/start/text_to_image_R@1", "validation/tuned/uniformity",
               "test/tuned_shifted/text_to_image_R@1", "test/start/simat", "test/tuned/simat"}  # fmt: skip
    assert told_of <= set(found)
    moved = dataclasses.replace(cell_of(row, (), 0, GPU), method="embedding-shift")
    assert make_cell(moved, tmp_path, "cpu", "") == ""
    told = moved.read(tmp_path)["found"]  # type: ignore[index]
    assert told["test/start/simat"] == found["test/start/simat"], "of the same model"
    assert METRICS["gained R@1"].of(told) is not None


@pytest.mark.slow
def test_a_start_is_fine_tuned_with_its_gap_opened(tmp_path: Path) -> None:
    settings = (*TINY, "finetuning.wise=false", "objective.name=m2mix", "training.learning_rate=1e-6")
    row = Row("m²", "demo", tuple(text for text in settings if ".layers" not in text), kind="opened", method="ft",
              start=Start("demo", (*TINY, "training.learning_rate=1e-3", "training.steps=30")))  # fmt: skip
    assert make_cell(plan.starts([Claim("", "a test", "x.", rows=(row,))], GPU, 1)[0], tmp_path, "cpu", "") == ""
    found = []
    for amount in (0, -1):
        cell = cell_of(row.plus("m²", f"shift.amount={amount}"), (), 0, GPU)
        assert make_cell(cell, tmp_path, "cpu", "") == ""
        found.append(cell.read(tmp_path)["found"])  # type: ignore[index]
    assert found[1]["test/start/modality_gap"] > found[0]["test/start/modality_gap"] + 0.2
    assert METRICS["mixed above"].of(found[1]) == pytest.approx(100.0), "even a model that knows nothing has a gap"


def test_a_wider_gap_puts_mixed_negatives_above_the_positive() -> None:
    space, rng = Sphere(32), torch.Generator().manual_seed(0)
    image = space.project(torch.randn(64, 32, generator=rng))
    text = space.project(image + 0.1 * torch.randn(64, 32, generator=rng))
    direction = torch.nn.functional.normalize(torch.randn(32, generator=rng), dim=0)
    shares = []
    for amount in (0.0, -0.5, -1.0):
        moved = [shifted(points, direction, amount, name, space) for points, name in ((image, "image"), (text, "text"))]
        above = mixed_above(*moved, 0.5, space=space, reading="pseudo_code")
        shares.append(sum(above.values()) / 2)
    assert shares[0] < 0.05
    assert shares[0] < shares[1] < shares[2]
    assert shares[2] > 0.3


@pytest.mark.slow
def test_a_claim_from_its_first_cell_to_its_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tiny_claim.run(tmp_path, jobs=2) == 0
    out = capsys.readouterr().out
    assert "The idea is better." in out
    assert "verdict: no verdict (2 paired seeds" in out
    assert f"The figure is {tmp_path / 'results' / 'tiny.png'}" in out
    assert len(cells_of(tmp_path)) == 8
    result = read_result(tmp_path / "results" / "tiny.json")
    assert [len(row.values["R@1"]) for row in result.rows.values()] == [2, 2]
    assert (tmp_path / "results" / "tiny.png").stat().st_size > 1000
    before = (tmp_path / "results" / "tiny.json").read_bytes()
    assert tiny_claim.run(tmp_path) == 0
    assert (tmp_path / "results" / "tiny.json").read_bytes() == before, "nothing was trained again"
    assert tiny_claim.run(tmp_path, seeds=3, minutes=0.0) == 1
    assert "the same command goes on" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_to_the_same_cells(tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    paths = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    script = [sys.executable, str(HERE / "tiny_claim.py"), str(killed)]
    with subprocess.Popen(script, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 300
        while not list((killed / CELLS).glob("*.json")) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    first = {path.name: path.read_bytes() for path in (killed / CELLS).glob("*.json")}
    assert first
    assert len(first) < 8
    assert tiny_claim.run(killed) == 0
    assert tiny_claim.run(whole) == 0
    assert {name: (killed / CELLS / name).read_bytes() for name in first} == first, "what was done is as it was"
    assert cells_of(killed) == cells_of(whole)


@pytest.mark.slow
def test_work_side_by_side_ends_with_a_sentence_where_a_process_is_killed() -> None:
    with pytest.raises(UserError, match="fewer --jobs"):
        list(side_by_side([_dies], 1))


def _dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_the_page_of_all_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "STORED", tmp_path / "nothing")  # or no claim would be left that was not run
    claim = CLAIMS["smoothing-helps"]
    for row, gain in zip(claim.rows, (0.0, 0.1), strict=True):
        for trial in row.sweep:
            for seed in range(5):
                written(cell_of(row, trial, seed, GPU), tmp_path, test=0.3 + gain + seed / 100)
    result = dataclasses.replace(plan.gathered("smoothing-helps", claim, GPU, 5, tmp_path), command="claims run <b>")
    result.write(tmp_path / "results" / "smoothing-helps.json")
    page = report_claims(tmp_path).read_text(encoding="utf-8")
    for name in CLAIMS:
        assert f'id="{name}"' in page
    for fragment in (
        "<svg",
        "+10.00 (+10.00 to +10.00) R@1",
        "claims run &lt;b&gt;",
        "2026-01-02",
        "commit abc",
        NOT_RUN,
    ):
        assert fragment in page
    assert judgements(tmp_path)["smoothing-helps"][2].word == HOLDS


@pytest.mark.parametrize("name", [name for name, claim in CLAIMS.items() if claim.curves])
def test_curves_are_drawn_from_what_is_there(name: str) -> None:
    claim = CLAIMS[name]
    trials = tuple({"settings": [], "validation": 2.0, "seeds": [1.0, 3.0], "place": 10.0**place} for place in range(3))
    rows = {
        row.name: RowResult((), trials, {metric: [place + seed / 10 for seed in range(5)] for metric in claim.metrics})
        for place, row in enumerate(claim.rows)
    }
    result = Result(name, GPU, claim.fingerprint(), rows)
    series = curve_series(claim, result)
    assert claim.curves
    assert all(low <= mean <= high for points in series.values() for _, mean, low, high in points)
    if claim.curves.gains:
        (points,) = series.values()
        assert [mean for _, mean, _, _ in points] == pytest.approx([1.0] * len(points)), "the row with the idea is next"
    elif claim.curves.trials:
        assert series == {row: [(10.0**place, 2.0, 1.0, 3.0) for place in range(3)] for row in claim.curves.trials}
        assert level_lines(claim, result) == dict.fromkeys(claim.curves.levels, 2.0)
    else:
        assert [len(points) for points in series.values()] == [len(points) for _, points in claim.curves.lines]
    figure = drawn(name, claim, result, verdict_of(claim, result))
    assert figure
    assert figure.axes[0].get_xlabel()
    assert figure.axes[0].get_xscale() == ("log" if claim.curves.log else "linear")
    assert drawn(name, claim, Result(name, GPU, "", {}), verdict_of(claim, None)) is None


def test_the_command_line_lists_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims"]) == 0
    listed = capsys.readouterr().out
    for name in CLAIMS:
        assert name in listed
    assert main(["claims", "list", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["claims"]
    assert set(told) == set(CLAIMS)
    assert main(["claims", "run", "smoothing-help", "--out", str(tmp_path / "none")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "did you mean smoothing-helps?" in said
    assert not (tmp_path / "none").exists()
    assert main(["claims", "run", "smoothing-helps", "--seeds", "0", "--out", str(tmp_path / "none")]) == 2


def test_a_claim_that_cannot_be_tested_says_why_and_trains_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_claims(["multi-at-scale"], out=tmp_path / "none") == 0
    assert "not testable here (ViT" in capsys.readouterr().out


def test_docs_claims_is_what_the_stored_results_say() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert with_claims(text) == text, "run python tests/claims_page.py"


def test_tensor_cores_are_of_a_gpu(tmp_path):
    with pytest.raises(UserError, match="--tf32 needs a GPU with tensor cores, which cpu is not; leave it out"):
        run_claims(["sphere-needs-temperature"], out=tmp_path, device="cpu", ways=Ways(tf32=True))


def test_recorded_passes_are_of_a_gpu(tmp_path):
    with pytest.raises(UserError, match="--cuda-graphs needs an NVIDIA GPU, which cpu is not; leave it out"):
        run_claims(["sphere-needs-temperature"], out=tmp_path, device="cpu", ways=Ways(cuda_graphs=True))


def test_progress_counts_the_cells_that_were_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [cell for cell in plan.tuning([CLAIM], GPU, 2) if cell != cell_of(BASE, BASE.sweep[0], 0, GPU)]
    for cell in cells:
        written(cell, tmp_path, test=0.1, validation=0.1)
    tiny_claim.run(tmp_path)
    assert "cells 8/8" in capsys.readouterr().err, "one was missing, of eight"
