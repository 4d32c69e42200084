"""What is kept, written as shards: the same bytes, keys and captions, training batches alike, stopped and gone on."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from test_decisions import FIVE, decided, judged, on

from equipoise.cli import main
from equipoise.config import Run, load_run
from equipoise.data.batches import Batches
from equipoise.data.files.prepare import LEFT_OUT
from equipoise.data.files.webdataset import Shards
from equipoise.data.keep.settings import Keep
from equipoise.data.keep.shards import write_kept
from equipoise.data.shard_writer import write_shard, write_shards
from equipoise.types import UserError
from equipoise.workflows.clean.shards import VALIDATION, require_shards, write_kept_pairs

pytest.importorskip("webdataset")

KEPT = (0, 1)  # of every five


@pytest.fixture
def photos(scenes, tmp_path) -> Path:
    """Sixty-four scenes as JPEGs in three shards."""
    write_shards(scenes, tmp_path / "photos", 16, per_shard=25)
    return tmp_path / "photos"


def run_on(photos: Path, tiny_settings, *more: str, validation: bool = True) -> Run:
    data = ["data.name=shards", f"data.train={photos}", *([f"data.validation={photos}"] if validation else [])]
    own = [setting for setting in tiny_settings if not setting.startswith("data.")]
    return load_run("flickr8k", [*own, *data, *more]).run


def right_of(records: int) -> np.ndarray:
    return np.tile(np.array([0.9, 0.8, 0.4, 0.2, 0.1], dtype=np.float32), records)


def cleaned_of(run: Run, folder: Path) -> Path:
    source = run.training_pairs()
    judged(source, folder, right_of(len(source)))
    return folder


def everything(source) -> list[tuple[str, tuple[str, ...], bytes]]:
    records = map(source.open, range(len(source)))
    return [(record.pair.key, record.pair.captions, record.image.data) for record in records]


def test_shards_hold_what_training_on_the_keep_file_sees(photos, tmp_path, tiny_settings, tokens):
    run = run_on(photos, tiny_settings)
    cleaned = cleaned_of(run, tmp_path / "cleaned")
    table = judged(run.training_pairs(), cleaned, right_of(64))
    swap = on(table, 7 * FIVE + 1)
    decided(
        cleaned,
        on(table, 3, decision="keep"),
        *(on(table, FIVE + number, decision="drop") for number in KEPT),
        on(table, 2 * FIVE + 4, decision="swap", **{"with": swap}),
    )
    told = write_kept_pairs(run, cleaned, tmp_path / "shards")
    assert f"data.train={tmp_path / 'shards'}" in told
    kept, found = (
        Keep(str(cleaned)).applied_to(run.training_pairs()),
        Shards(test=str(tmp_path / "shards")).build("test"),
    )
    assert len(found) == 63  # the second record lost both of its captions
    assert everything(found) == everything(kept)
    whole = run.training_pairs()
    assert found.pair(1).captions == (*whole.pair(2).captions[:2], whole.pair(7).captions[1])
    assert [found.pair(index) for index in range(63)] == [kept.pair(index) for index in range(63)]
    batches = [Batches(source, tokens, run.preprocess, batch_size=16, seed=0) for source in (kept, found)]
    for position in (0, 3, 9):
        ours, theirs = (one.batch(position) for one in batches)
        assert torch.equal(ours.images, theirs.images)
        assert torch.equal(ours.tokens, theirs.tokens)
    assert main(["data", "check", str(tmp_path / "shards"), "--out", str(tmp_path / "check")]) == 0


@pytest.mark.filterwarnings("ignore:data.validation is not given")
@pytest.mark.filterwarnings("ignore:data.test is not given")
def test_what_was_held_out_of_the_training_files_is_written_beside(photos, tmp_path, tiny_settings):
    run = run_on(photos, tiny_settings, "data.validation=", "data.validation_share=0.3", validation=False)
    told = write_kept_pairs(run, cleaned_of(run, tmp_path / "cleaned"), tmp_path / "shards")
    held_out = run.data.build("validation")
    assert 0 < len(held_out) < 64
    again = load_run("flickr8k", [word for word in told.split() if word.startswith("data.")]).run.data
    assert everything(again.build("validation")) == everything(held_out)
    assert len(again.build("train")) == 64 - len(held_out)
    assert (tmp_path / "shards" / VALIDATION).is_dir()


def test_stopped_it_goes_on_to_the_same_bytes(photos, tmp_path, tiny_settings):
    run = run_on(photos, tiny_settings)
    kept = Keep(str(cleaned_of(run, tmp_path / "cleaned"))).applied_to(run.training_pairs())
    note = {"selection": kept.selection}
    whole = write_kept(kept, tmp_path / "whole", note, per_shard=20)

    class Stopped(Exception):
        pass

    opened = kept.open

    def stopping(index: int):
        if index == 45:
            raise Stopped
        return opened(index)

    kept.open = stopping
    with pytest.raises(Stopped):
        write_kept(kept, tmp_path / "stopped", note, per_shard=20)
    assert [path.name for path in sorted((tmp_path / "stopped").glob("*"))] == ["00000.tar", "00001.tar", "shards.json"]
    seen: list[int] = []
    kept.open = lambda index: seen.append(index) or opened(index)
    again = write_kept(kept, tmp_path / "stopped", note, per_shard=20)
    assert min(seen) == 40  # the first two shards are not read again
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in whole]


def test_other_decisions_do_not_land_among_the_same_shards(photos, tmp_path, tiny_settings):
    run = run_on(photos, tiny_settings)
    cleaned = cleaned_of(run, tmp_path / "cleaned")
    write_kept_pairs(run, cleaned, tmp_path / "shards")
    write_kept_pairs(run, cleaned, tmp_path / "shards")
    table = judged(run.training_pairs(), cleaned, right_of(64))
    decided(cleaned, on(table, 3, decision="keep"))
    with pytest.raises(UserError, match="other data or settings"):
        write_kept_pairs(run, cleaned, tmp_path / "shards")


def test_captions_in_a_json_stay_there_and_files_beside_a_picture_too(tmp_path, tiny_settings):
    pixels = (tmp_path / "a.png", tmp_path / "b.jpg")
    for path in pixels:
        Image.new("RGB", (9, 7), "red").save(path)
    texts = [["a fish", "a dog", "a cat", "x", "y"], ["a tree", "a road", "z", "u", "v"]]
    samples = [
        {
            "__key__": f"set 1/{path.stem}",
            path.suffix[1:]: path.read_bytes(),
            "json": json.dumps({"says": own, "width": 9}).encode(),
            "regions.npy": b"numbers",
        }
        for path, own in zip(pixels, texts, strict=True)
    ]
    (tmp_path / "given").mkdir()
    write_shard(tmp_path / "given" / "0.tar", samples)
    given = Shards(train=str(tmp_path / "given"), validation=str(tmp_path / "given"), caption_key="says")
    judged(given.build("train"), tmp_path / "cleaned", right_of(2))
    kept = Keep(str(tmp_path / "cleaned")).applied_to(given.build("train"))
    write_kept(kept, tmp_path / "shards", {}, frozenset({"says"}))
    for key in ("says", ""):
        found = Shards(test=str(tmp_path / "shards"), caption_key=key).build("test")
        assert [found.pair(index).captions for index in range(2)] == [tuple(own[:2]) for own in texts]
        assert [found.pair(index).key for index in range(2)] == ["set 1/a", "set 1/b"]
        assert found.pair(0).truth["width"] == 9
    files = found.records.side_files(0)
    assert files["regions.npy"] == b"numbers"
    assert json.loads(files["json"])["says"] == texts[0][:2]
    assert [found.open(index).image.data for index in range(2)] == [path.read_bytes() for path in pixels]


def test_keys_of_a_table_lose_what_a_shard_cannot_hold_and_bad_pictures_are_named(tmp_path):
    names = ["in/a.b.jpg", "in/c.png", "in/d.jpg"]
    (tmp_path / "in").mkdir()
    for name in names[:2]:
        Image.new("RGB", (9, 7), "red").save(tmp_path / name)
    (tmp_path / "in/d.jpg").write_bytes(b"no picture")
    with (tmp_path / "pairs.csv").open("w", newline="") as stream:
        rows = [[name, *(f"{number} {name}" for number in range(5))] for name in names]
        csv.writer(stream).writerows([["filepath", *"abcde"], *rows])
    table = str(tmp_path / "pairs.csv")
    data = [f"data.{split}={table}" for split in ("train", "validation")]
    (tmp_path / "mine.toml").write_text('[data]\nname = "table"\ncaptions = ["a", "b", "c", "d", "e"]\nmax_bad = 1.0\n')
    run = load_run(tmp_path / "mine.toml", data).run
    told = write_kept_pairs(run, cleaned_of(run, tmp_path / "cleaned"), tmp_path / "shards")
    assert LEFT_OUT in told
    assert list(json.loads((tmp_path / "shards" / LEFT_OUT).read_text())) == [f"{table}, line 4"]
    found = Shards(test=str(tmp_path / "shards")).build("test")
    assert [found.pair(index).key for index in range(len(found))] == ["in/a_b", "in/c"]
    assert found.pair(0).truth["key"] == names[0]
    assert found.pair(0).captions == (f"0 {names[0]}", f"1 {names[0]}")


@pytest.mark.parametrize(
    ("recipe", "settings", "sentence"),
    [
        ("demo", [], "not in files"),
        ("flickr8k", ["clean.rule=weights"], "shards hold captions and not how much they count"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_judged(recipe, settings, sentence, tmp_path, capsys):
    with pytest.raises(UserError, match=sentence):
        require_shards(load_run(recipe, settings).run, tmp_path / "shards")
    words = [word for setting in settings for word in ("--set", setting)]
    folders = ["--out", str(tmp_path / "out"), "--shards", str(tmp_path / "shards")]
    assert main(["clean", recipe, *words, *folders]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_weights_of_a_keep_file_are_not_lost_in_silence(photos, tmp_path, tiny_settings):
    run = run_on(photos, tiny_settings)
    judged(run.training_pairs(), tmp_path / "cleaned", right_of(64), rule="weights")
    with pytest.raises(UserError, match="weighs captions"):
        write_kept_pairs(run, tmp_path / "cleaned", tmp_path / "shards")
