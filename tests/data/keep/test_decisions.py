"""What a person decided: applied to every kind of source, read strictly, and noticed by a run that goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from equipoise.config import load_run
from equipoise.data.batches import Batches
from equipoise.data.features import FeatureFiles
from equipoise.data.files.mixture import Mixture
from equipoise.data.files.webdataset import Shards
from equipoise.data.keep.decisions import DECISIONS, KIND, digest_of_table, read_decisions
from equipoise.data.keep.file import KeepTable, read_keep, write_keep
from equipoise.data.keep.record import RECORD
from equipoise.data.keep.records import records
from equipoise.data.keep.settings import Keep
from equipoise.data.remap import subset
from equipoise.data.shard_writer import write_shards
from equipoise.data.source import Source
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import Notice, UserError
from equipoise.workflows.clean.summary import cleaning_section
from equipoise.workflows.train_model import train_run

FIVE = 5  # captions of a scene


def judged(source: Source, folder: Path, right: np.ndarray, rule: str = "threshold") -> KeepTable:
    """A keep file with the threshold 0.5."""
    named = list(records(source))
    keep = right >= 0.5
    table = KeepTable(
        [key for key, texts in named for _ in texts],
        np.concatenate([np.arange(len(texts)) for _, texts in named]),
        np.concatenate([texts for _, texts in named]),
        right,
        keep,
        (right if rule == "weights" else keep).astype(np.float32),
        [""] * len(keep),
    )
    write_keep(folder, table, {"noise": 0.5, "rule": {"rule": rule, "threshold": 0.5}})
    return read_keep(folder)[0]


def decided(folder: Path, *decisions: dict[str, Any], **changes: Any) -> None:
    digest = digest_of_table(read_keep(folder)[0])
    content = {"kind": KIND, "version": 1, "keep": digest, "threshold": None, "decisions": list(decisions), **changes}
    (folder / DECISIONS).write_text(json.dumps(content))


def on(table: KeepTable, row: int, **rest: Any) -> dict[str, Any]:
    return {"key": table.keys[row], "caption": int(table.captions[row]), **rest}


@pytest.fixture
def right(scenes) -> np.ndarray:
    return np.tile(np.array([0.9, 0.8, 0.4, 0.2, 0.1], dtype=np.float32), len(scenes))


def test_a_caption_is_kept_dropped_and_swapped_by_hand(scenes, tmp_path, right, tokens, tiny):
    table = judged(scenes, tmp_path, right)
    other = on(table, 7 * FIVE + 1, text=scenes.pair(7).captions[1])
    decided(
        tmp_path,
        on(table, 3, decision="keep"),
        on(table, FIVE, decision="drop"),
        on(table, FIVE + 1, decision="drop"),
        on(table, 2 * FIVE + 4, decision="swap", **{"with": other}),
    )
    some = Keep(str(tmp_path)).applied_to(scenes)
    assert len(some) == len(scenes) - 1  # the second record lost both of its captions
    assert some.pair(0).captions == tuple(scenes.pair(0).captions[number] for number in (0, 1, 3))
    assert some.pair(1).captions == (*scenes.pair(2).captions[:2], scenes.pair(7).captions[1])
    assert some.pair(2).captions == scenes.pair(3).captions[:2]
    assert some.selection["by_hand"] == {"kept": 1, "dropped": 2, "swapped": 1}
    batches = Batches(some, tokens, tiny.run.preprocess, batch_size=len(some), seed=0)
    swapped = tokens([scenes.pair(7).captions[1]], ["k"])[0][0].tolist()
    rows = [batches.batch(position) for position in range(8)]
    drawn = [batch.tokens[batch.index.tolist().index(1)].tolist()[: len(swapped)] for batch in rows]
    assert swapped in drawn


def test_swaps_among_records_of_which_some_are_held_out(scenes, tmp_path, right):
    table = judged(scenes, tmp_path, right)
    here = [number for number in range(len(scenes)) if number not in (1, 5)]
    decided(
        tmp_path,
        on(table, 2 * FIVE + 4, decision="swap", **{"with": on(table, 7 * FIVE + 1)}),
        on(table, FIVE, decision="swap", **{"with": on(table, 0)}),  # of a record that is not here
    )
    with pytest.warns(Notice, match="decides on 2 records"):
        some = Keep(str(tmp_path)).applied_to(subset(scenes, here))
    assert some.pair(1).captions == (*scenes.pair(2).captions[:2], scenes.pair(7).captions[1])
    decided(tmp_path, on(table, 4, decision="swap", **{"with": on(table, 5 * FIVE)}))
    with pytest.warns(Notice), pytest.raises(UserError, match="which is not among the data that is trained on"):
        Keep(str(tmp_path)).applied_to(subset(scenes, here))


def test_what_is_true_of_a_swapped_caption_is_judged_anew(scenes, tmp_path, right):
    table = judged(scenes, tmp_path, right)
    decided(tmp_path, on(table, 4, decision="swap", **{"with": on(table, 30)}))
    pair = Keep(str(tmp_path)).applied_to(scenes).pair(0)
    assert pair.truth["captions_true"] == scenes.relevance([0], pair.captions)[0].tolist()
    assert pair.truth["is_clean"] == all(pair.truth["captions_true"])
    assert pair.truth["details"][2] == scenes.pair(6).truth["details"][0]


def test_features_are_swapped_with_their_texts(tmp_path):
    texts = np.arange(6 * 2 * 2, dtype=np.float32).reshape(6, 2, 2)
    np.savez(tmp_path / "f.npz", image=np.arange(18, dtype=np.float32).reshape(6, 3), text=texts)
    whole = FeatureFiles([tmp_path / "f.npz"])
    table = judged(whole, tmp_path, np.tile(np.array([0.9, 0.1], dtype=np.float32), 6))
    decided(tmp_path, on(table, 3, decision="swap", **{"with": on(table, 11)}))
    some = Keep(str(tmp_path)).applied_to(whole)
    own = [torch.from_numpy(texts[0, :1]), torch.from_numpy(np.stack([texts[1, 0], texts[5, 1]]))]
    values, _, owners = some.text_features([0, 1])
    assert torch.equal(values, torch.cat(own))
    assert owners.tolist() == [0, 1, 1]
    assert torch.equal(some.text_features([1], per_image=1)[0], own[1][:1])
    tokens = CaptionTokenizer.from_config(CaptionTokenizer.Config(kind="none"), ())
    batch = some.batch([1, 0, 1], [0.9, 0.9, 0.1], tokens)
    assert torch.equal(batch.tokens.flatten(1), torch.stack([own[1][1], own[0][0], own[1][0]]))
    assert torch.equal(batch.images.flatten(1), whole.image_features([1, 0, 1])[0])


def test_shards_show_the_swapped_caption_where_they_are_read(scenes, tmp_path, right, tokens, tiny):
    write_shards(scenes, tmp_path / "shards", 16, 64, lambda *_: None)
    paths = str(tmp_path / "shards" / "*.tar")
    whole = Shards(train=paths, validation=paths).build("train")
    table = judged(whole, tmp_path, right)
    decided(tmp_path, on(table, 2, decision="swap", **{"with": on(table, 9)}))
    some = Keep(str(tmp_path)).applied_to(whole)
    expected = (*whole.pair(0).captions[:2], whole.pair(1).captions[4])
    assert some.pair(0).captions == some.open(0).pair.captions == expected


def test_weights_of_captions_kept_by_hand_are_whole(scenes, tmp_path, right):
    table = judged(scenes, tmp_path, right, "weights")
    decided(tmp_path, on(table, 0, decision="keep"), on(table, 2, decision="keep"), on(table, 1, decision="drop"))
    some = Keep(str(tmp_path), "weights").applied_to(scenes)
    assert some.caption_weights(0).tolist() == pytest.approx([1.0, 1.0, 0.2, 0.1])


@pytest.mark.parametrize(
    ("rule", "given", "kept"),
    [("decision", 0.5, 3), ("threshold", 0.5, 3), ("threshold", 0.3, 3), ("share", 0.5, 2.5)],
)
def test_the_threshold_that_was_chosen_counts_where_the_rule_is_a_threshold(scenes, tmp_path, right, rule, given, kept):
    judged(scenes, tmp_path, right)
    decided(tmp_path, threshold=0.3)
    some = Keep(str(tmp_path), rule, given).applied_to(scenes)
    assert sum(len(some.pair(index).captions) for index in range(len(some))) == kept * 64


def test_two_thresholds_are_refused(scenes, tmp_path, right):
    judged(scenes, tmp_path, right)
    decided(tmp_path, threshold=0.3)
    with pytest.raises(UserError, match=r"keep\.threshold is 0\.7.*says 0\.3"):
        Keep(str(tmp_path), "threshold", 0.7).applied_to(scenes)


def test_a_threshold_says_nothing_of_decisions_by_another_rule(scenes, tmp_path, right):
    judged(scenes, tmp_path, right, "share")
    decided(tmp_path, threshold=0.0)
    assert len(Keep(str(tmp_path)).applied_to(scenes).pair(0).captions) == 2


def test_records_of_the_same_name_need_a_row(scenes, tmp_path):
    write_shards(scenes, tmp_path / "shards", 16, 64, lambda *_: None)
    shards = Shards(train=str(tmp_path / "shards" / "*.tar"), validation=str(tmp_path / "shards" / "*.tar"))
    whole = Mixture.Config(parts={"one": shards, "two": shards}).build("train")
    table = judged(whole, tmp_path, np.ones(2 * 64 * FIVE, dtype=np.float32))
    assert len(set(table.keys)) == 64
    decided(tmp_path, on(table, 3, decision="drop"))
    with pytest.raises(UserError, match='needs a "row"'):
        read_decisions(tmp_path, table)
    decided(tmp_path, {**on(table, 323, decision="drop"), "row": 323})
    assert read_decisions(tmp_path, table).keep == {323: False}


def test_another_decision_in_the_table_is_the_same_keep_file(scenes, tmp_path, right):
    before = digest_of_table(judged(scenes, tmp_path, right))
    assert digest_of_table(judged(scenes, tmp_path, right, "share")) == before
    assert digest_of_table(judged(scenes, tmp_path, right + np.float32(0.01))) != before


GOOD = {"key": "train-0000000", "caption": 0, "decision": "drop"}
OTHER = {"key": "train-0000001", "caption": 0}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "other"}, ['"kind"']),
        ({"version": 2}, ["version 2"]),
        ({"version": True}, ["version True"]),
        ({"keep": "0" * 64}, ["another keep file"]),
        ({"threshold": 1.5}, ['"threshold" is 1.5']),
        ({"threshold": "0.5"}, ["'0.5'"]),
        ({"threshold": True}, ["True"]),
        ({"threshold": float("nan")}, ["nan"]),
        ({"threshold": 10**400}, ['"threshold" is 1000']),
        ({"extra": 1}, ['"extra"']),
        ({"decisions": {}}, ["list"]),
        ({"decisions": [[]]}, ["decision 1"]),
        ({"decisions": [{"key": "train-0000000"}]}, ["decision 1", '"caption"']),
        ({"decisions": [{**GOOD, "colour": 1}]}, ["decision 1", "nothing but"]),
        ({"decisions": [{**GOOD, "key": "nobody"}]}, ["decision 1", "'nobody'"]),
        ({"decisions": [{**GOOD, "key": ["a"]}]}, ["decision 1"]),
        ({"decisions": [{**GOOD, "caption": 5}]}, ["decision 1", "caption 5"]),
        ({"decisions": [{**GOOD, "caption": -1}]}, ["decision 1", "-1"]),
        ({"decisions": [{**GOOD, "caption": 0.0}]}, ["decision 1", "0.0"]),
        ({"decisions": [{**GOOD, "caption": 10**30}]}, ["decision 1"]),
        ({"decisions": [{**GOOD, "row": 1}]}, ["decision 1", "row 1"]),
        ({"decisions": [{**GOOD, "row": False}]}, ["decision 1", "row"]),
        ({"decisions": [{**GOOD, "decision": "perhaps"}]}, ["decision 1", "'perhaps'"]),
        ({"decisions": [GOOD, GOOD]}, ["decision 2", "another one"]),
        ({"decisions": [{**GOOD, "with": OTHER}]}, ["decision 1", '"with"']),
        ({"decisions": [{**GOOD, "decision": "swap"}]}, ["decision 1", '"with"']),
        ({"decisions": [{**GOOD, "decision": "swap", "with": {**OTHER, "key": "x"}}]}, ['"with" of decision 1', "'x'"]),
        ({"decisions": [{**GOOD, "decision": "swap", "with": {**OTHER, "text": "no"}}]}, ["other words"]),
        ({"decisions": [{**GOOD, "decision": "swap", "with": {**OTHER, "text": 3}}]}, ["other words"]),
        ({"decisions": [{**GOOD, "decision": "swap", "with": {**OTHER, "text": "\ud800"}}]}, ["other words"]),
    ],
)
def test_a_file_that_makes_no_sense_is_one_sentence(scenes, tmp_path, right, changes, words):
    judged(scenes, tmp_path, right)
    decided(tmp_path, **changes)
    with pytest.raises(UserError) as error:
        Keep(str(tmp_path)).applied_to(scenes)
    assert all(word in str(error.value) for word in (*words, str(tmp_path / DECISIONS)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff\xfe", b"[" * 100_000, b'{"kind": 1}', b""])
def test_bytes_that_are_no_decisions_are_one_sentence(scenes, tmp_path, right, content):
    judged(scenes, tmp_path, right)
    (tmp_path / DECISIONS).write_bytes(content)
    with pytest.raises(UserError, match=DECISIONS):
        Keep(str(tmp_path)).applied_to(scenes)


def test_an_editor_may_put_a_byte_order_mark_before_it(scenes, tmp_path, right):
    table = judged(scenes, tmp_path, right)
    decided(tmp_path, on(table, 3, decision="keep"))
    (tmp_path / DECISIONS).write_bytes(b"\xef\xbb\xbf" + (tmp_path / DECISIONS).read_bytes())
    assert dict(read_decisions(tmp_path, table).keep) == {3: True}


def test_a_folder_in_its_place_is_one_sentence(scenes, tmp_path, right):
    judged(scenes, tmp_path, right)
    (tmp_path / DECISIONS).mkdir()
    with pytest.raises(UserError, match="cannot be read"):
        Keep(str(tmp_path)).applied_to(scenes)


@pytest.mark.slow
def test_a_run_is_not_resumed_on_other_captions(scenes, tmp_path, right, tiny_settings):
    table = judged(scenes, tmp_path, right)
    decided(tmp_path, on(table, 3, decision="keep"))
    run, settings = tmp_path / "run", (*tiny_settings, f"keep.folder={tmp_path}")
    train_run(load_run("demo", settings), run)
    assert json.loads((run / RECORD).read_text())["by_hand"] == {"kept": 1, "dropped": 0, "swapped": 0}
    decided(tmp_path, on(table, 3, decision="keep"), on(table, 4, decision="swap", **{"with": on(table, 9)}))
    longer = load_run("demo", (*settings, "training.steps=3"))
    with pytest.raises(UserError, match=r"other captions.*1 kept, 0 dropped, 1 swapped now"):
        train_run(longer, run)
    decided(tmp_path, on(table, 3, decision="keep"))
    assert train_run(longer, run)[1].step == 3


def test_a_report_says_what_was_decided_by_hand(scenes, tmp_path, right):
    table = judged(scenes, tmp_path, right)
    decided(tmp_path, on(table, 3, decision="keep"), on(table, 4, decision="drop"), threshold=0.25)
    section = cleaning_section(Keep(str(tmp_path)), 1.0)
    assert section is not None
    assert section["rows"]["by hand"] == "1 captions kept, 1 captions dropped, threshold 0.25"
