"""benchmarks/noise.py: its rows are runs of every kind of noise, and its index files are what the runs are given."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import noise
import noise_report
import noise_rows
import numpy as np
import pytest
from cells import Row
from noise_judged import SharedJudges, judge_alone, keep_of, on_kept, seconds_of, with_seed

from equipoise.config import load_run
from equipoise.data.caption_shuffle import Shuffle
from equipoise.workflows.claims.right_pairs import right_captions

SMALL = ("training.steps=50",)
SCENES = ("data.train_size=60", "data.validation_size=4", "data.test_size=4")
RECALL = "retrieval/mean_recall"


def given_features(folder: Path) -> tuple[str, ...]:
    """Settings of features on which pairs are easily judged, in a file in the folder."""
    known, noise = np.random.default_rng(0).standard_normal((2, 120, 16)).astype(np.float32)
    np.savez(folder / "pairs.npz", image=known, text=known + 0.4 * noise)
    return (
        *(f"data.{split}={folder / 'pairs.npz'}" for split in ("train", "validation")),
        *("image.width=16", "text.width=16", "training.steps=60", "training.batch_size=40", "training.warmup_steps=1"),
    )


@pytest.mark.parametrize("data", noise_rows.DRAWN)
@pytest.mark.parametrize("kind", noise_rows.NOISE)
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
    assert any(noise_rows.ON_FEATURES in row.name for row in found)
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


def folders(judges: SharedJudges, rows: list[Row], seed: int = 1) -> dict[str, Path]:
    """The folder of each row's judges, by what the row is called without its share."""
    return {row.name.partition(": ")[2]: judges.folder(row, seed, SMALL) for row in rows if judges.judge(row)}


def test_rows_that_differ_in_rule_or_loss_share_their_judges(tmp_path: Path) -> None:
    rows = noise.rows("features", [0.4], "image")
    shared = folders(SharedJudges(tmp_path, of_all=True), rows)
    two = {name for name in shared if "two rounds" in name and not {"matched", "decoys"} & set(name.split())}
    assert len(two) == 7, "kept and weighted, P >= 0.9, the loss of CRCL with each, and P >= 0.2 with that"
    assert len({shared[name] for name in two}) == 1
    assert shared["kept"] == shared["weighted"]
    others = ("kept, two rounds, share by decoys", "kept, two rounds, matched anew")
    assert len({shared[name] for name in ("kept", "kept, two rounds", *others)}) == 4
    assert not {noise_rows.TOLD, "weighted, judged meanwhile (online)"} & set(shared)
    assert noise_rows.NOISY not in shared
    assert not folders(SharedJudges(tmp_path), rows), "nobody asked"
    other = folders(SharedJudges(tmp_path, of_all=True), rows, seed=2)
    assert not set(other.values()) & set(shared.values())


def test_judges_are_trained_by_the_recipe_and_not_by_the_row(tmp_path: Path) -> None:
    rows = {row.name.partition(": ")[2]: row for row in noise.rows("features", [0.4], "image")}
    judges = SharedJudges(tmp_path, of_all=True)
    row = rows["weighted, two rounds, active complementary loss"]
    tried = replace(row, settings=(*row.settings, "training.learning_rate=1e-4"))
    recipe, settings = judges.asked(tried, 3, ("training.steps=40", "seed=9", "training.steps=50"))
    assert recipe == "features"
    assert settings == [
        "clean.enabled=true", "clean.rounds=2", "seed=3", "shuffle.level=image", "shuffle.seed=3", "shuffle.share=0.4",
        "training.steps=50",
    ]  # fmt: skip
    by_share = judges.asked(rows["judges that saw the pairs, small losses exchanged (co-teaching)"], 0, ())[1]
    assert {"clean.rule=share", "clean.share=0.4"} < set(by_share), "its second round learns from what it keeps"
    assert "clean.rule=weights" in judges.asked(rows["held-out judges, orthogonal weight (OSA)"], 0, ())[1]


def test_a_cell_notes_what_its_judges_read_and_how_they_were_trained(tmp_path: Path) -> None:
    rows = {row.name: row for row in noise.rows("coco", [0.4], "image", on_features=True)}
    ours = rows["40%: kept, two rounds, judged on features"]
    sizes = {"small": 128, "large": 224}
    notes = {name: {"weights": "abc", "pictures": {"size": size}} for name, size in sizes.items()}
    for name, note in notes.items():
        (tmp_path / name).mkdir()
        about = {**note, "model": "transformers:/home/somebody/resnet", "records": 5}
        (tmp_path / name / "embedding.json").write_text(json.dumps(about))

    def read(*given: str, row: Row = ours) -> dict:
        settings = (f"data.train={json.dumps(given)}", "training.steps=600", "image.width=2048")
        return SharedJudges(tmp_path, settings).read(row)

    trained = {"judged_with": ["training.steps=600", "image.width=2048"]}
    files = [str(tmp_path / "large" / f"0000{number}.safetensors") for number in range(3)]
    assert read(*files) == read(str(tmp_path / "large")) == {"features": [notes["large"]], **trained}
    assert read(files[0], str(tmp_path / "small")) == {"features": [notes["large"], notes["small"]], **trained}
    assert read(str(tmp_path / "none.npz")) == trained
    assert read(*files, row=rows["40%: all pairs"]) == {}
    one = SharedJudges(tmp_path, (f"data.train={tmp_path / 'small'}",))
    assert one.read(ours) == {"features": [notes["small"]], "judged_with": []}


@pytest.mark.slow
def test_each_row_keeps_by_its_own_rule_what_is_judged_once(tmp_path: Path) -> None:
    features = given_features(tmp_path)
    rows = {row.name: row for row in noise.rows("coco", [0.4], "image", on_features=True)}
    names = ("", ", P >= 0.9", ", active complementary loss")
    kept = [rows[f"40%: kept, two rounds, judged on features{name}"] for name in names]
    weighted = rows["40%: weighted, two rounds, judged on features, active complementary loss"]
    judges = SharedJudges(tmp_path / "judged", features)
    place = {judges.judged(row, 1, ()) for row in (*kept, weighted)}
    assert list((tmp_path / "judged").iterdir()) == list(place), "one folder, and nothing half made"
    folder = place.pop()
    assert seconds_of(folder) > 0

    by_rule = [keep_of(load_run(row.recipe, row.settings).run.clean, folder) for row in (*kept, weighted)]
    assert [(keep.rule, keep.threshold) for keep in by_rule] == [
        ("decision", 0.5), ("threshold", 0.9), ("decision", 0.5), ("weights", 0.5),
    ]  # fmt: skip
    plain, strict, _, weights = (judges.said(row, 1, ())["truth"] for row in (*kept, weighted))
    assert plain["wrong"] == weights["wrong_among_kept"] > 0.3, "weights keep all"
    assert strict["right_dropped"] > plain["right_dropped"] > weights["right_dropped"] == 0

    elsewhere = ("training.device=cuda:99",)  # where the row is to be trained
    judge_alone(judges, kept[1], 1, elsewhere, tmp_path / "cell.json")
    cell = json.loads((tmp_path / "cell.json").read_text())
    assert (cell["name"], cell["seed"], cell["found"]) == (kept[1].name, 1, {})
    assert cell["judged"]["truth"] == strict
    assert cell["judged"]["rule"]["threshold"] == 0.9
    assert set(elsewhere) < set(cell["settings"])
    assert {"commit", "device"} < set(cell)
    assert "features" not in cell, "nobody noted what made them"

    noisy = [text for text in with_seed(kept[0], (), 1) if text.startswith(("shuffle.", "clean."))]
    loaded = load_run("features", [*features, *noisy])
    cut = load_run("features", [*features, *noisy, "clean.threshold=0.9"])
    sizes = [len(on_kept(one, folder).run.training_pairs()) for one in (loaded, cut)]
    assert 0 < sizes[1] < sizes[0] < 120


@pytest.mark.slow
def test_a_row_may_be_judged_while_it_trains(tmp_path: Path) -> None:
    rows = {row.name: row for row in noise.rows("features", [0.4], "image")}
    few = (*given_features(tmp_path), f"data.test={tmp_path / 'pairs.npz'}", "training.steps=15", "clean.steps=60")
    judges, file = SharedJudges(tmp_path / "judged", of_all=True), tmp_path / "cell.json"
    noise.measure(rows["40%: weighted, judged meanwhile (online)"], 0, few, file, judges=judges)
    cell = json.loads(file.read_text())
    assert cell["judged"]["rule"]["rule"] == "weights"
    assert cell["judged"]["truth"]["auroc_of_captions"] > 0.5
    assert cell["seconds"]["judging"] > 0
    assert cell["found"][RECALL] > 0
    assert not judges.place.exists(), "it has judges of its own"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--only-judge"], "--only-judge is of rows that share their judges; give --features or --share-judges"),
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
    head, _, *lines = noise_report.against(found, "kept", "mean recall").splitlines()
    assert head == "| mean recall, and *kept* | 40% | of the gap | is ahead by |"
    told = {line.split(" | ")[0].strip("| "): line.strip(" |").split(" | ")[1:] for line in lines}
    assert list(told) == ["all pairs", "truly right pairs", "kept", "label smoothing", "no noise"]
    assert told["all pairs"] == ["13.3", "", "+10.0 (+5.0 to +15.0)"]
    assert told["truly right pairs"][2].startswith("-6.7")
    assert told["kept"][:2] == ["23.3", "58% (50 to 75)"]
    assert told["no noise"][0] == "50.0 (mean of 1)"
    assert told["label smoothing"] == ["15.5 (mean of 2)", "-10% (-50 to 30)", "+9.5 (+9.0 to +10.0)"]


def test_gains_are_of_the_seeds_that_both_rows_have():
    found = {"40%: all pairs": several(s0=0.1, s1=0.2), "40%: kept": several(s1=0.5, s2=0.9)}
    line = noise_report.gains(found, {"mean recall": RECALL}).splitlines()[-1]
    assert line == "| 40%: kept | +30.0 (one seed) |"


def test_ways_are_compared_by_the_number_that_is_asked_for():
    found = {
        "60%: kept": [{"seed": 0, RECALL: 0.9, "zero_shot/acc1": 0.3}],
        "60%: weighted": [{"seed": 0, RECALL: 0.9, "zero_shot/acc1": 0.25}, {"seed": 1, RECALL: 0.9}],
    }
    assert (
        noise_report.against(found, "kept", "zero-shot").splitlines()[-1] == "| weighted | 25.0 |  | +5.0 (one seed) |"
    )
    with pytest.raises(SystemExit, match="no cell of these rows tells R@1 text → image"):
        noise_report.against(found, "kept", "R@1 text → image")
