"""Cleaning from the command line to a trained model: features whose noise is known, scenes, mistakes, a kill."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from judged_features import IMAGES, WIDTH, words
from PIL import Image
from pyarrow import parquet

from equipoise.cli import main
from equipoise.config import load_run, load_stored
from equipoise.data.caption_shuffle import shuffled
from equipoise.data.files.webdataset import Shards
from equipoise.data.keep.decisions import DECISIONS, KIND, digest_of_table
from equipoise.data.keep.file import NOTE, TABLE, read_keep
from equipoise.data.keep.settings import Keep
from equipoise.data.remap import subset
from equipoise.data.shard_writer import write_shard
from equipoise.models.folder import step_folders
from equipoise.reports.curate_page import PAGE
from equipoise.workflows.audit.folds import folds_of
from equipoise.workflows.audit.judge import judge
from equipoise.workflows.audit.points import points_of
from equipoise.workflows.audit.stopwatch import COST, KINDS, seconds_spent
from equipoise.workflows.clean import rematch
from equipoise.workflows.clean import run as clean_run
from equipoise.workflows.clean.moving_evidence import evidence_of
from equipoise.workflows.clean.summary import cleaning_section
from equipoise.workflows.load import load


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory, noisy) -> Path:
    folder = tmp_path_factory.mktemp("cleaned") / "features"
    assert main(["clean", "features", *noisy, "--out", str(folder)]) == 0
    return folder


def note_of(folder: Path) -> dict:
    return json.loads((folder / NOTE).read_text())


def test_wrong_captions_are_dropped_and_right_ones_kept(cleaned):
    note = note_of(cleaned)
    assert note["noise"] == pytest.approx(0.4, abs=0.1)
    assert note["interval"][0] <= note["noise"] <= note["interval"][1]
    assert note["truth"]["wrong"] == 0.4
    assert note["truth"]["wrong_among_kept"] < 0.1
    assert note["truth"]["right_dropped"] < 0.1
    assert note["still_wrong"] == pytest.approx(note["truth"]["wrong_among_kept"], abs=0.03)
    assert note["finding"].endswith(f" About {note['still_wrong']:.1%} of what is kept is wrong all the same.")
    assert all(judge["knows"] for judge in note["judges"])


def test_a_row_for_every_caption(cleaned):
    table, note = parquet.read_table(cleaned / TABLE).to_pydict(), note_of(cleaned)
    assert len(table["key"]) == note["captions"] == 2 * IMAGES
    assert table["caption"] == [0, 1] * IMAGES
    kept = [decision == "keep" for decision in table["decision"]]
    assert kept == [right >= 0.5 for right in table["p_right"]]
    assert table["weight"] == [float(one) for one in kept]
    assert set(table["reason"]) == {"P(right) at least 0.5", "P(right) below 0.5"}
    assert note["kept"] == {"captions": sum(kept), "images": len(set(np.array(table["key"])[kept]))}
    assert (note["records"], note["recipe"]["shuffle"]["share"]) == (IMAGES, 0.4)


def test_wrong_captions_are_called_another_s(cleaned):
    """By the truth of the data: of the 160 captions that were passed on, and of the others."""
    kinds, note = parquet.read_table(cleaned / TABLE).to_pydict()["kind"], note_of(cleaned)
    assert note["kinds"] == {kind: kinds.count(kind) for kind in ("another", "detail", "vague")}
    against = note["kinds_against_truth"]
    assert sum(sum(named.values()) for named in against.values()) == 2 * IMAGES
    assert against["shuffled"].get("another", 0) > 0.6 * 160
    assert against["right"].get("another", 0) < 0.1 * 240


def test_the_page_proposes_texts_of_features_that_training_takes(cleaned, noisy, tmp_path):
    found = re.search(r'id="state">(.*?)</script>', (cleaned / PAGE).read_text())
    assert found
    state = json.loads(found[1])
    assert len(state["pairs"]) == 200
    assert all(pair["with"]["key"] != pair["key"] for pair in state["pairs"] if "with" in pair)
    pair = next(pair for pair in state["pairs"] if "with" in pair)
    entry = {name: pair[name] for name in ("row", "key", "caption")} | {"decision": "swap", "with": pair["with"]}
    folder = tmp_path / "again"
    folder.mkdir()
    for name in (TABLE, NOTE):
        shutil.copy(cleaned / name, folder)
    content = {name: state[name] for name in ("kind", "version", "threshold")} | {"keep": state["digest"]}
    (folder / DECISIONS).write_text(json.dumps({**content, "decisions": [entry]}))
    source = load_run("features", [*noisy[1::2], f"keep.folder={folder}"]).run.training_pairs()
    assert source.selection["by_hand"] == {"kept": 0, "dropped": 0, "swapped": 1}
    place = next(index for index in range(len(source)) if source.pair(index).key == pair["key"])
    giver = next(i for i in range(len(source.whole)) if source.whole.pair(i).key == pair["with"]["key"])
    swapped = source.whole.text_features([giver])[0][pair["with"]["caption"]]
    assert any(torch.equal(text, swapped) for text in source.text_features([place])[0])


def test_another_rule_needs_no_new_judges(cleaned, noisy, tmp_path, capsys):
    folder = tmp_path / "again"
    shutil.copytree(cleaned, folder)
    rule = words({"clean.rule": "share", "clean.per": "image"})
    assert main(["clean", "features", *noisy, *rule, "--out", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "Training a judge" not in out
    assert "look wrong" in out
    note, table = note_of(folder), parquet.read_table(folder / TABLE).to_pydict()
    assert note["captions"] - note["kept"]["captions"] == round(note["noise"] * note["captions"])
    assert table["p_right"][::2] == table["p_right"][1::2]


@pytest.mark.parametrize(("rules", "warns"), [({"clean.threshold": 0.99999}, True), ({"clean.rule": "share"}, False)])
def test_far_fewer_kept_than_look_right_is_warned_of(cleaned, noisy, tmp_path, capsys, rules, warns):
    folder = shutil.copytree(cleaned, tmp_path / "again")
    assert main(["clean", "features", *noisy, *words({"clean.evidence": "gsc", **rules}), "--out", str(folder)]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "captions are kept, though" in line]
    assert len(told) == warns
    assert all("clean.evidence = 'gsc'" in line and "clean.rule=share" in line for line in told)


def test_what_it_cost_is_beside_the_keep_file_and_not_in_it(cleaned, noisy, tmp_path):
    folder = shutil.copytree(cleaned, tmp_path / "again")
    assert "judging" not in note_of(folder)
    (folder / COST).write_text(json.dumps({"reading": 0, "training": 500, "judging": 700, "finished": False}))
    assert main(["clean", "features", *noisy, "--out", str(folder)]) == 0
    assert seconds_spent(folder)["judging"] > 700  # it was interrupted before
    (folder / COST).write_text(json.dumps({"reading": 0, "training": 500, "judging": 700, "finished": True}))
    assert main(["clean", "features", *noisy, "--out", str(folder)]) == 0
    assert 0 < seconds_spent(folder)["judging"] < 700
    assert (folder / NOTE).read_bytes() == (cleaned / NOTE).read_bytes()
    section = cleaning_section(Keep(str(folder)), 7.0)
    of_judges = re.search(r"(\d+) s of training judges, \d+ s of judging, 7 s", section["rows"]["cost"])
    assert of_judges  # whose steps were not made again, and count all the same
    (folder / COST).unlink()
    section = cleaning_section(Keep(str(folder)), 7.0)
    assert section["rows"]["cost"].startswith(f"{of_judges[1]} s of training judges (how long they judged was not")


def test_the_same_again_writes_the_same_bytes(cleaned, noisy, tmp_path, capsys):
    folder = tmp_path / "again"
    shutil.copytree(cleaned, folder)
    for name in (TABLE, NOTE):
        (folder / name).unlink()
    assert main(["clean", "features", *noisy, "--out", str(folder)]) == 0
    assert all((folder / name).read_bytes() == (cleaned / name).read_bytes() for name in (TABLE, NOTE))


def test_other_settings_of_the_judges_are_refused(cleaned, noisy, capsys):
    assert main(["clean", "features", *noisy, "--set", "seed=7", "--out", str(cleaned)]) == 2
    assert "seed is 0 there and 7 here" in capsys.readouterr().err


def test_judges_are_not_called_longer_trained_than_they_are(cleaned, noisy, capsys):
    before = (cleaned / NOTE).read_bytes()
    assert main(["clean", "features", *noisy, "--set", "clean.steps=80", "--out", str(cleaned)]) == 2
    assert "train for 50 steps, and 80 are asked for; choose another --out" in capsys.readouterr().err
    assert (cleaned / NOTE).read_bytes() == before


def matched_anew(cleaned: Path, noisy: list[str], folder: Path) -> np.ndarray:
    """What takes the place of each caption, by the judges of `cleaned`."""
    shutil.copytree(cleaned, folder)
    assert main(["clean", "features", *noisy, "--set", "clean.rematch=true", "--out", str(folder)]) == 0
    return read_keep(folder)[0].instead


def test_matches_are_the_same_however_few_records_are_compared_at_once(cleaned, noisy, tmp_path, monkeypatch):
    whole = matched_anew(cleaned, noisy, tmp_path / "whole")
    monkeypatch.setattr(rematch, "AT_ONCE", 600)
    assert np.array_equal(matched_anew(cleaned, noisy, tmp_path / "parts"), whole)


def test_matches_must_be_sure(cleaned, noisy, tmp_path, monkeypatch):
    sure = matched_anew(cleaned, noisy, tmp_path / "sure") >= 0
    monkeypatch.setattr(clean_run, "REMATCH_LEAST", 0.5)
    likely = matched_anew(cleaned, noisy, tmp_path / "likely") >= 0
    assert likely[sure].all()
    assert likely.sum() > sure.sum() > 0


def test_captions_that_lost_their_picture_are_matched_anew(cleaned, noisy, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(clean_run, "REMATCH_LEAST", 0.5)  # judges of sixty right pairs are hardly ever sure
    folder = tmp_path / "again"
    matched_anew(cleaned, noisy, folder)
    assert "get the captions of another that fit" in capsys.readouterr().out
    table, note = read_keep(folder)
    before, _ = read_keep(cleaned)
    assert table.instead is not None
    rows = np.flatnonzero(table.instead >= 0)
    owners = np.array([int(key.rpartition("-")[2]) if "-" in key else int(key) for key in table.keys])
    loaded = load_run("features", [word for word in noisy if word != "--set"])
    donors = shuffled(IMAGES, 0.4, loaded.run.shuffle.seed).numpy()
    right = donors[owners[table.instead[rows]]] == owners[rows]
    assert len(rows) >= 10
    assert right.mean() > 0.3  # of forty texts by chance one; judges of sixty right pairs know little
    assert not before.keep[rows].any()
    assert table.keep[rows].all()
    assert (table.weight[rows] == 1).all()
    assert not before.keep[table.instead[rows]].any()
    assert note["version"] == 2
    assert note_of(cleaned)["version"] == 1
    kept = loaded.run.training_pairs()
    again = Keep(str(folder)).applied_to(kept)
    assert len(again) == len(Keep(str(cleaned)).applied_to(kept)) + len(np.unique(owners[rows]))
    values, _, whose = again.text_features(range(len(again)))
    everything, _, _ = kept.text_features(range(IMAGES))
    place = {int(record): number for number, record in enumerate(again.records)}
    row = int(rows[0])
    assert torch.equal(values[whose == place[owners[row]]][0], everything[int(table.instead[row])])
    assert len(Keep(str(folder), rule="threshold").applied_to(kept)) == len(Keep(str(cleaned)).applied_to(kept))


@pytest.mark.slow
def test_a_second_round_takes_the_share_from_the_first(cleaned, noisy, tmp_path):
    folder = tmp_path / "again"
    shutil.copytree(cleaned, folder)
    assert main(["clean", "features", *noisy, "--set", "clean.rounds=2", "--out", str(folder)]) == 0
    assert len(list((folder / "round-2").glob("fold-*"))) == 2
    note = note_of(folder)
    assert note["noise"] == note_of(cleaned)["noise"]
    assert note["truth"]["wrong_among_kept"] <= note_of(cleaned)["truth"]["wrong_among_kept"]


@pytest.mark.slow
def test_a_third_round_learns_from_what_the_second_kept(cleaned, noisy, tmp_path):
    folder = tmp_path / "again"
    shutil.copytree(cleaned, folder)
    for rounds in (2, 3):
        assert main(["clean", "features", *noisy, "--set", f"clean.rounds={rounds}", "--out", str(folder)]) == 0
    assert [len(list((folder / f"round-{number}").glob("fold-*"))) for number in (2, 3)] == [2, 2]
    assert not (folder / "round-4").exists()
    assert note_of(folder)["noise"] == note_of(cleaned)["noise"]
    assert note_of(folder)["truth"]["wrong_among_kept"] <= note_of(cleaned)["truth"]["wrong_among_kept"]


OWN_RECIPE = """extends = "features"
[space]
dim = 8
[image]
width = 16
[text]
width = 16
[training]
{length}
batch_size = 40
warmup_steps = 5
learning_rate = 0.02
{more}"""


def test_judges_may_have_a_recipe_of_their_own(noisy, tmp_path):
    recipe = tmp_path / "judges.toml"
    recipe.write_text(OWN_RECIPE.format(length="steps = 60", more=""))
    given = words({"clean.recipe": str(recipe), "clean.rounds": 2})
    assert main(["clean", "features", *noisy, *given, "--out", str(tmp_path / "a")]) == 0
    for place in ("fold-2-of-2-seed-0", "round-2/fold-1-of-2-seed-0"):
        judge = load_stored(tmp_path / "a" / place / "config.toml").run
        assert (judge.space.dim, judge.training.steps, judge.shuffle.share) == (8, 60, 0.4)
    assert note_of(tmp_path / "a")["recipe"]["space"]["dim"] == WIDTH
    assert note_of(tmp_path / "a")["truth"]["auroc_of_captions"] > 0.8


@pytest.mark.parametrize(
    ("length", "more", "sentence"),
    [
        ("epochs = 3", "", "clean.steps"),
        ("steps = 60", '[objective]\nname = "my_package:Mine"\n', "--trust my_package"),
    ],
)
def test_a_recipe_of_judges_that_will_not_do(noisy, tmp_path, capsys, length, more, sentence):
    (tmp_path / "judges.toml").write_text(OWN_RECIPE.format(length=length, more=more))
    given = words({"clean.recipe": str(tmp_path / "judges.toml")})
    assert main(["clean", "features", *noisy, *given, "--out", str(tmp_path / "a")]) == 2
    assert sentence in capsys.readouterr().err


def test_one_command_cleans_and_trains_and_reports(noisy, tmp_path, capsys):
    folder = tmp_path / "run"
    assert main(["train", "features", *noisy, "--clean", "--out", str(folder)]) == 0
    out, page = capsys.readouterr().out, folder / "clean" / PAGE
    assert "look wrong" in out
    assert f"open {page}; then train anew with --set keep.folder={folder / 'clean'}" in out
    assert "equipoise serve" not in out  # of features, which have no pictures
    report = (folder / "report.html").read_text()
    assert "Which pairs it was trained on" in report
    assert f'<a href="clean/{PAGE}">{page}</a>; then' in report
    spent = seconds_spent(folder / "clean")
    told = re.search(r"(\d+) s of looking for copies, (\d+) s of training judges, (\d+) s of judging, \d+ s", report)
    assert told
    assert [int(seconds) for seconds in told.groups()] == [round(spent[kind]) for kind in KINDS]
    assert min(spent.values()) > 0
    assert main(["train", "--resume", str(folder)]) == 0
    assert "is finished" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_on_all_pairs_beside_it_says_what_cleaning_bought(noisy, tmp_path, capsys):
    run = tmp_path / "run"
    extra = ["--clean", "--set", "clean.baseline=true", "--out", str(run)]
    assert main(["train", "features", *noisy, *extra]) == 0
    printed = capsys.readouterr().out
    kept, all_pairs = (json.loads((place / "metrics.json").read_text()) for place in (run, run / "all-pairs"))
    key = "retrieval/text_to_image_R@1"
    assert kept[key] > all_pairs[key]
    assert load_run(str(run / "all-pairs" / "config.toml"), ()).run.clean.enabled is False
    for text in (printed, (run / "report.html").read_text()):
        for said in ("what was kept", f"{100 * all_pairs[key]:.1f}%", f"{100 * kept[key]:.1f}%"):
            assert said in text
    before = (run / "all-pairs" / "model.safetensors").read_bytes()
    (run / "report.html").unlink()  # as if it had been stopped at the end
    assert main(["train", "--resume", str(run)]) == 0
    assert (run / "all-pairs" / "model.safetensors").read_bytes() == before


@pytest.mark.slow
def test_pairs_count_by_their_probability(cleaned, noisy, tmp_path, capsys):
    folder = tmp_path / "again"
    shutil.copytree(cleaned, folder)
    assert main(["clean", "features", *noisy, "--set", "clean.rule=weights", "--out", str(folder)]) == 0
    table = parquet.read_table(folder / TABLE).to_pydict()
    assert table["weight"] == table["p_right"]
    assert set(table["decision"]) == {"keep"}
    keep = ["--set", f"keep.folder={folder}", "--set", "training.steps=2"]
    assert main(["train", "features", *noisy, *keep, "--out", str(tmp_path / "run")]) == 0
    other = ["--set", "objective.form.name=sigmoid", "--out", str(tmp_path / "other")]
    assert main(["train", "features", *noisy, *keep, *other]) == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"clean.evidence": "score", "clean.rule": "share", "clean.share": 0.4},
        {"clean.evidence": "gsc"},
        {"clean.evidence": "osa", "clean.rule": "weights"},
        {"clean.evidence": "npc", "clean.rule": "weights"},
    ],
)
def test_other_evidence_needs_no_new_judges(cleaned, noisy, tmp_path, capsys, settings):
    folder = tmp_path / "again"
    shutil.copytree(cleaned, folder)
    assert main(["clean", "features", *noisy, *words(settings), "--show", "0", "--out", str(folder)]) == 0
    assert "Training a judge" not in capsys.readouterr().out
    note, table = note_of(folder), parquet.read_table(folder / TABLE).to_pydict()
    right = np.array(table["p_right"])
    assert ((right >= 0) & (right <= 1)).all()
    assert note["rule"]["evidence"] == settings["clean.evidence"]
    assert note["noise"] == note_of(cleaned)["noise"]
    assert "still_wrong" not in note, "only what is a probability can be held against decoys"
    if "clean.share" in settings:
        assert note["captions"] - note["kept"]["captions"] == round(0.4 * note["captions"])
    if settings["clean.evidence"] not in ("osa", "npc"):
        assert note["truth"]["auroc_of_captions"] > 0.9
    if "clean.rule" not in settings:
        assert note["truth"]["wrong_among_kept"] < note["truth"]["wrong"]


@pytest.mark.slow
def test_judges_that_saw_the_pairs_do_not_tell_what_is_left(noisy, tmp_path):
    """They know wrong captions by heart, and captions of others they do not."""
    assert main(["clean", "features", *noisy, "--set", "clean.seen=true", "--out", str(tmp_path / "seen")]) == 0
    note = note_of(tmp_path / "seen")
    assert "still_wrong" not in note
    assert "all the same" not in note["finding"]
    assert '"wrong": null' in (tmp_path / "seen" / PAGE).read_text().replace('"wrong":null', '"wrong": null')


@pytest.mark.slow
def test_co_teaching_exchanges_what_two_judges_chose(noisy, tmp_path):
    settings = {"clean.evidence": "co_teaching", "clean.judges": 2, "clean.rounds": 2, "clean.rule": "share"}
    folder = tmp_path / "two"
    assert main(["clean", "features", *noisy, *words({**settings, "clean.seen": True}), "--out", str(folder)]) == 0
    assert note_of(folder)["truth"]["auroc_of_captions"] > 0.8
    assert len(list((folder / "round-2").glob("fold-*"))) == 4


@pytest.mark.slow
def test_crcl_refines_labels_and_trains_on_them(noisy, tmp_path):
    settings = {"clean.evidence": "crcl", "clean.rule": "weights", "clean.seen": True, "objective.name": "crcl"}
    folder = tmp_path / "run"
    assert main(["train", "features", *noisy, *words(settings), "--clean", "--out", str(folder)]) == 0
    assert 0.0 in parquet.read_table(folder / "clean" / TABLE).to_pydict()["weight"]


def test_a_model_that_is_given_judges_all(cleaned, noisy, tmp_path):
    judge = next(cleaned.glob("fold-1-*")) / "checkpoints" / "best"
    folder = tmp_path / "given"
    assert main(["clean", "features", *noisy, "--model", str(judge), "--out", str(folder)]) == 0
    assert not list(folder.glob("fold-*"))
    assert len(note_of(folder)["judges"]) == 1


def test_judges_that_know_nothing_decide_nothing(tmp_path, tiny_settings, capsys):
    changes = [word for setting in tiny_settings for word in ("--set", setting)]
    assert main(["clean", "demo", *changes, "--out", str(tmp_path / "a")]) == 2
    captured = capsys.readouterr()
    assert "no judge can tell the pairs from shuffled ones" in captured.err
    assert "2 of 2 judges cannot tell these pairs from shuffled ones" in captured.out
    assert not (tmp_path / "a" / NOTE).exists()


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        (["--set", "keep.folder=x"], "keep.folder"),
        (["--set", "clean.folds=150"], "cannot be judged in 150 folds"),
        (["--model", "nowhere"], "no model in nowhere"),
        (["--set", "clean.rule=most"], "clean.rule"),
        (["--set", "clean.evidence=osa"], "set clean.rule to weights"),
        (["--set", "clean.evidence=co_teaching"], "set clean.judges and clean.rounds to 2"),
        (["--set", "clean.evidence=astrology"], "clean.evidence"),
        (["--set", "clean.share=1.5"], "share is 1.5"),
        (["--set", "clean.rematch=true", "--set", "clean.rule=weights"], "rematch gives images"),
        (["--set", "clean.evidence=score", "--set", "space.name=euclidean"], "evidence score is a cosine"),
    ],
)
def test_mistakes_are_one_sentence(noisy, tmp_path, capsys, extra, sentence):
    assert main(["clean", "features", *noisy, *extra, "--out", str(tmp_path / "a")]) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert "Traceback" not in err


def test_data_that_is_not_there(tmp_path, capsys):
    assert main(["clean", str(tmp_path / "none.tar"), "--out", str(tmp_path / "a")]) == 2
    assert "none.tar" in capsys.readouterr().err


def started(arguments: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "equipoise", *arguments]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, **quiet)


def killed_once(arguments: list[str], seen: Path) -> None:
    """Run a command until a file is there, and kill it then."""
    process = started(arguments)
    while not seen.exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert seen.exists()


@pytest.mark.slow
def test_killed_while_it_judges_a_run_goes_on_to_the_same_bytes(noisy, tmp_path):
    folders = [tmp_path / "whole", tmp_path / "killed"]
    starts = [["train", "features", *noisy, "--clean", "--out", str(folder)] for folder in folders]
    assert started(starts[0]).wait() == 0
    killed_once(starts[1], folders[1] / "clean/fold-2-of-2-seed-0/checkpoints")
    before = seconds_spent(folders[1] / "clean")
    killed_once(goes_on(folders[1]), folders[1] / "checkpoints")
    assert all(spent > before[kind] > 0 for kind, spent in seconds_spent(folders[1] / "clean").items())
    assert started(goes_on(folders[1])).wait() == 0
    for name in (f"clean/{TABLE}", f"clean/{NOTE}", "model.safetensors"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name


def goes_on(folder: Path) -> list[str]:
    return ["train", "--resume", str(folder)]


@pytest.mark.slow
def test_scenes_of_which_two_in_five_are_wrong(tmp_path):
    """Small scenes, a minute on two idle cores: most wrong captions go, most right ones stay."""
    settings = {
        "data.train_size": 3000,
        "data.captions": 2,
        "data.noise.shuffled": 0.4,
        "data.noise.wrong_attribute": 0.0,
        "data.noise.near_duplicates": 0.0,
        "data.max_things": 1,
        "data.detail_weights": [1.0, 0.0, 0.0],
        "training.batch_size": 128,
        "training.evaluate_every": 100,
        "clean.steps": 300,
        "clean.per": "image",
    }
    assert main(["clean", "demo", *words(settings), "--out", str(tmp_path / "a")]) == 0
    truth = note_of(tmp_path / "a")["truth"]
    assert truth["wrong_among_kept"] < truth["wrong"] / 2
    assert truth["right_dropped"] < 0.3


@pytest.mark.slow
def test_what_is_kept_of_photographs_is_written_as_shards(tmp_path, capsys):
    """240 pictures of one colour each, a fifth with the caption of another: judged, one decided on by hand, the rest
    written, read and trained on."""
    colours = ["red", "green", "blue", "yellow", "white", "black", "purple", "cyan"]
    rng, samples = np.random.default_rng(0), []
    for number in range(240):
        colour = colours[number % 8]
        buffer = io.BytesIO()
        noise = rng.integers(-20, 20, (32, 32, 3))
        pixels = np.clip(np.asarray(Image.new("RGB", (32, 32), colour)) + noise, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(buffer, "PNG")
        said = colours[(number + 3) % 8] if number % 5 == 0 else colour
        samples.append({"__key__": f"{number:04d}", "png": buffer.getvalue(), "txt": f"something {said}".encode()})
    (tmp_path / "photos").mkdir()
    write_shard(tmp_path / "photos" / "0.tar", samples)
    settings = {
        **dict.fromkeys(("image.width", "text.width", "space.dim"), 32),
        **dict.fromkeys(("image.layers", "text.layers"), 1),
        "tokens.vocabulary": 600,
        "preprocess.size": 32,
        "training.batch_size": 40,
        "training.warmup_steps": 5,
        "training.learning_rate": 0.003,
        "training.evaluate_every": 50,
        "clean.steps": 100,
    }
    command = ["clean", str(tmp_path / "photos"), *words(settings), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    kept = note_of(tmp_path / "out")["kept"]["images"]
    digest = digest_of_table(read_keep(tmp_path / "out")[0])
    dropped = {"key": "0001", "caption": 0, "decision": "drop"}
    by_hand = {"kind": KIND, "version": 1, "keep": digest, "threshold": None, "decisions": [dropped]}
    (tmp_path / "out" / DECISIONS).write_text(json.dumps(by_hand))
    capsys.readouterr()
    assert main([*command, "--shards", str(tmp_path / "shards")]) == 0
    told = capsys.readouterr().out
    assert "Training a judge" not in told
    found = Shards(test=str(tmp_path / "shards")).build("test")
    assert len(found) == kept - 1
    assert f"{len(found)} images with their captions" in told
    assert main(["data", "check", str(tmp_path / "shards"), "--out", str(tmp_path / "check")]) == 0
    given = {"data.train": str(tmp_path / "shards"), "data.validation": str(tmp_path / "shards"), "training.steps": 2}
    run = ["train", "flickr8k", *words({**settings, **given}), "--out", str(tmp_path / "run")]
    assert main(run) == 0


def online(settings: dict[str, object]) -> list[str]:
    return ["--clean", *words({"clean.online": True, "clean.rule": "weights", **settings})]


@pytest.mark.slow
def test_online_with_one_part_is_a_first_pass(noisy, tmp_path):
    """All judging before all training: judges at their last step, and a model trained with the keep file they make."""
    assert main(["train", "features", *noisy, *online({"clean.every": 1000}), "--out", str(tmp_path / "online")]) == 0
    place = tmp_path / "online" / "clean"
    source = load_run("features", noisy[1::2]).run.training_pairs()
    parts = folds_of(source, 2, 0, size=64)
    judges = [load(step_folders(place / f"fold-{number}-of-2-seed-0")[-1]) for number in (1, 2)]
    says = [judge(points_of(one, subset(source, part)), one, 0, 0.2) for one, part in zip(judges, parts, strict=True)]
    counts = np.full(IMAGES, 2)
    right = evidence_of(says, parts, parts, counts).right("auto")
    table = parquet.read_table(place / TABLE).to_pydict()
    assert table["p_right"] == pytest.approx(right.tolist(), abs=1e-6)
    assert table["weight"] == table["p_right"]
    after = ["--set", f"keep.folder={place}", "--out", str(tmp_path / "after")]
    assert main(["train", "features", *noisy, *after]) == 0
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("online", "after")]
    assert models[0] == models[1]
    assert re.search(r"s of training judges, \d+ s of judging", (tmp_path / "online" / "report.html").read_text())
    assert min(seconds_spent(place).values()) > 0


@pytest.mark.slow
def test_online_finds_wrong_captions_and_killed_twice_goes_on_to_the_same_bytes(noisy, tmp_path):
    folders = [tmp_path / "whole", tmp_path / "killed"]
    starts = [["train", "features", *noisy, *online({"clean.every": 8}), "--out", str(folder)] for folder in folders]
    assert started(starts[0]).wait() == 0
    killed_once(starts[1], folders[1] / "clean/fold-2-of-2-seed-0/checkpoints")  # while the first part is judged
    killed_once(goes_on(folders[1]), folders[1] / "clean/online-00000080.npz")  # and after the second has been
    assert started(goes_on(folders[1])).wait() == 0
    for name in (f"clean/{TABLE}", f"clean/{NOTE}", "model.safetensors"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name
    note = note_of(folders[0] / "clean")
    assert note["truth"]["auroc_of_captions"] > 0.9
    assert note["noise"] == pytest.approx(0.4, abs=0.12)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"clean.online": True}, "clean.rule"),
        ({"clean.online": True, "clean.rule": "weights", "clean.rounds": 2}, "clean.rounds"),
        ({"clean.online": True, "clean.rule": "weights", "clean.seen": True}, "clean.seen"),
        ({"clean.momentum": 1.0}, "momentum"),
        ({"clean.every": 0}, "every"),
    ],
)
def test_settings_that_online_has_no_use_for(noisy, tmp_path, capsys, settings, sentence):
    assert main(["train", "features", *noisy, "--clean", *words(settings), "--out", str(tmp_path / "a")]) == 2
    assert sentence in capsys.readouterr().err


def test_online_belongs_to_training(noisy, tmp_path, capsys):
    settings = words({"clean.online": True, "clean.rule": "weights"})
    assert main(["clean", "features", *noisy, *settings, "--out", str(tmp_path / "a")]) == 2
    assert "equipoise train --clean" in capsys.readouterr().err
