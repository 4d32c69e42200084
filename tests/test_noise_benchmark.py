"""benchmarks/noise.py: its rows are runs of every kind of noise, and its index files are what the runs are given."""

from __future__ import annotations

import argparse
from pathlib import Path

import noise
import noise_report
import numpy as np
import pytest

from equipoise.config import load_run
from equipoise.data.caption_shuffle import Shuffle
from equipoise.workflows.claims.right_pairs import right_captions

SCENES = ("data.train_size=60", "data.validation_size=4", "data.test_size=4")
RECALL = "retrieval/mean_recall"


@pytest.mark.parametrize("data", noise.DRAWN)
@pytest.mark.parametrize("kind", noise.NOISE)
def test_every_kind_of_noise_is_in_the_data_of_its_rows(kind: str, data: str) -> None:
    row = next(row for row in noise.rows(data, [0.4], "image", noise=kind) if row.name == "40%: all pairs")
    source = load_run(row.recipe, [*row.settings, *SCENES]).run.training_pairs()
    pairs = [source.pair(index) for index in range(len(source))]
    wrong = 1 - right_captions(source).mean()
    assert (wrong > 0.25) == (kind in ("shuffled", "wrong_attribute"))
    vague = [detail == "abstract" for pair in pairs for detail in pair.truth["details"][1:]]
    assert (np.mean(vague) > 0.25) == (kind == "vague")
    assert any(pair.truth["noise"] == kind for pair in pairs) == (kind != "vague")


def test_every_row_is_a_run() -> None:
    found = noise.rows("scenes", [0.6], "caption", judge=Path("given"), noise="vague", on_features=True)
    assert any(noise.ON_FEATURES in row.name for row in found)
    for row in found:
        load_run(row.recipe, row.settings)


@pytest.mark.parametrize(("level", "length"), [("image", 60), ("caption", 300)])
def test_index_files_are_what_the_runs_are_given(level: str, length: int, tmp_path: Path) -> None:
    given = {"data": "scenes", "set": SCENES, "level": level, "shares": [0.2, 0.4], "seeds": 2}
    noise.write_indices(argparse.Namespace(**given, write_indices=tmp_path / "indices"))
    assert len(list((tmp_path / "indices").iterdir())) == 4
    file = tmp_path / "indices" / f"{level}-0.4-1.npy"
    assert np.load(file).shape == (length,)
    clean = load_run("clip-scenes-gpu", SCENES).run.data.build("train")
    by_file, drawn = (shuffle.applied_to(clean) for shuffle in (Shuffle(file=str(file)), Shuffle(0.4, 1, level)))
    for index in range(60):  # by caption, those of an image may come in another order
        assert sorted(by_file.pair(index).captions) == sorted(drawn.pair(index).captions)


def test_rows_of_the_same_judges_are_judged_once(tmp_path: Path) -> None:
    known = np.random.default_rng(0).standard_normal((120, 16)).astype(np.float32)
    np.savez(tmp_path / "pairs.npz", image=known, text=known)
    features = [
        *(f"data.{split}={tmp_path / 'pairs.npz'}" for split in ("train", "validation")),
        *("image.width=16", "text.width=16", "training.steps=150", "training.batch_size=20", "training.warmup_steps=1"),
    ]
    kept, loss, weights = (
        f"40%: {name}"
        for name in (
            "kept, two rounds, judged on features",
            "kept, two rounds, judged on features, active complementary loss",
            "held-out judges, orthogonal weight (OSA), judged on features",
        )
    )
    rows = {row.name: row for row in noise.rows("coco", [0.4], "image", on_features=True)}

    def folder(name: str, seed: int = 1) -> Path:
        return noise.judged(features, tmp_path / "judged", noise.with_seed(rows[name], (), seed))

    assert folder(kept) == folder(loss)
    assert len({folder(kept), folder(weights), folder(kept, seed=2)}) == 3
    assert len(list((tmp_path / "judged").iterdir())) == 3, "nothing half made is left"
    assert noise.seconds_of(folder(kept)) > 0
    noisy = [text for text in noise.with_seed(rows[kept], (), 1) if text.startswith("shuffle.")]
    assert len(noise.on_kept(load_run("features", [*features, *noisy]), folder(kept)).run.training_pairs())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--only-judge"], "--only-judge is of rows that are judged on features; give --features"),
        (["--against", "nobody"], "there is no way nobody; there are: all pairs; "),
        (["--relevance", "none.csv", "--set", "data.test_size=4"], "none.csv cannot be read"),
    ],
)
def test_mistakes_are_sentences(words: list[str], sentence: str, monkeypatch, tmp_path: Path, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["noise.py", "scenes", "--out", str(tmp_path), *words])
    with pytest.raises(SystemExit) as ended:
        noise.main()
    assert sentence in f"{ended.value}{capsys.readouterr().err}"


def several(**by_seed: float) -> list[dict[str, float]]:
    return [{"seed": int(seed.lstrip("s")), RECALL: value} for seed, value in by_seed.items()]


def test_what_is_closed_of_the_gap_and_who_is_ahead_are_told_by_seed():
    found = {
        "no noise": several(s0=0.5),
        "40%: all pairs": several(s0=0.1, s1=0.2, s2=0.1),
        "40%: truly right pairs": several(s0=0.3, s1=0.4, s2=0.2),
        "40%: kept": several(s0=0.2, s1=0.35, s2=0.15),
        "40%: early stopping": [],
        "40%: label smoothing": several(s1=0.26, s2=0.05),  # without the first seed
    }
    head, _, *lines = noise_report.against(found, "kept").splitlines()
    assert head == "| mean recall, and *kept* | 40% | of the gap | is ahead by |"
    told = {line.split(" | ")[0].strip("| "): line.strip(" |").split(" | ")[1:] for line in lines}
    assert list(told) == ["all pairs", "truly right pairs", "kept", "label smoothing"]
    assert told["all pairs"] == ["13.3", "", "+10.0 (+5.0 to +15.0)"]
    assert told["truly right pairs"][2].startswith("-6.7")
    assert told["kept"][:2] == ["23.3", "58% (50 to 75)"]
    assert told["label smoothing"] == ["15.5", "-10% (-50 to 30)", "+9.5 (+9.0 to +10.0)"]


def test_gains_are_of_the_seeds_that_both_rows_have():
    found = {"40%: all pairs": several(s0=0.1, s1=0.2), "40%: kept": several(s1=0.5, s2=0.9)}
    line = noise_report.gains(found, {"mean recall": RECALL}).splitlines()[-1]
    assert line == "| 40%: kept | +30.0 (-inf to +inf) |"
