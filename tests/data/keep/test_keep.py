"""Keeping some captions: rules on known probabilities, every kind of source, and files that do not fit."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import torch
from PIL import Image
from pyarrow import parquet

from equipoise.config import load_run
from equipoise.data.batches import Batches
from equipoise.data.caption_shuffle import Shuffle
from equipoise.data.features import FeatureFiles
from equipoise.data.files.mixture import Mixture
from equipoise.data.files.webdataset import Shards
from equipoise.data.keep.file import NOTE, TABLE, KeepTable, read_keep, write_keep
from equipoise.data.keep.records import records
from equipoise.data.keep.rules import kept_captions
from equipoise.data.keep.settings import Keep
from equipoise.data.keep.source import KeptSource
from equipoise.data.remap import subset
from equipoise.data.scenes import Scenes
from equipoise.data.shard_writer import write_shard, write_shards
from equipoise.data.source import Source
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import Notice, UserError
from equipoise.workflows.clean.summary import cleaning_section

RIGHT = np.array([0.9, 0.1, 0.5, 0.49, 0.1, 0.7], dtype=np.float32)


def write(
    source: Source,
    folder: Path,
    right: np.ndarray,
    keep: np.ndarray,
    noise: float = 0.5,
    weight: np.ndarray | None = None,
    rule: str = "threshold",
) -> None:
    """A keep file of a source, with these probabilities and decisions."""
    named = list(records(source))
    table = KeepTable(
        [key for key, texts in named for _ in texts],
        np.concatenate([np.arange(len(texts)) for _, texts in named]),
        np.concatenate([texts for _, texts in named]),
        right,
        keep,
        keep.astype(np.float32) if weight is None else weight,
        ["told"] * len(keep),
    )
    write_keep(folder, table, {"noise": noise, "rule": {"rule": rule, "threshold": 0.5}})


def every_second(source: Source) -> np.ndarray:
    """Of the first record no caption is kept, of the others every second one."""
    named = [texts for _, texts in records(source)]
    keep = np.concatenate([np.arange(len(texts)) % 2 == 0 for texts in named])
    keep[: len(named[0])] = False
    return keep


def kept(source: Source) -> KeptSource:
    return KeptSource(source, np.array([len(texts) for _, texts in records(source)]), every_second(source))


@pytest.mark.parametrize(
    ("rule", "threshold", "share", "expected"),
    [
        ("threshold", 0.5, 0.0, [1, 0, 1, 0, 0, 1]),
        ("threshold", 0.0, 0.9, [1, 1, 1, 1, 1, 1]),
        ("share", 0.9, 0.5, [1, 0, 1, 0, 0, 1]),
        ("share", 0.9, 1 / 6, [1, 0, 1, 1, 1, 1]),  # the first of equals goes
        ("share", 0.9, 0.0, [1, 1, 1, 1, 1, 1]),
    ],
)
def test_known_probabilities_keep_known_captions(rule, threshold, share, expected):
    assert kept_captions(RIGHT, rule, threshold, share).tolist() == [bool(one) for one in expected]


@pytest.mark.parametrize("rule", ["threshold", "share"])
def test_a_caption_that_nothing_is_known_of_is_kept(rule):
    assert kept_captions(np.array([0.1, np.nan], dtype=np.float32), rule, 0.5, 1.0).tolist() == [False, True]


def test_scenes_keep_captions_and_lose_images_without_any(scenes, tokens, tiny):
    some = kept(scenes)
    assert len(some) == 63
    assert [some.pair(i).captions for i in range(63)] == [scenes.pair(i).captions[::2] for i in range(1, 64)]
    assert some.pair(0).key == scenes.pair(1).key
    assert torch.equal(some.images([4, 0], 16), scenes.images([5, 1], 16))
    captions = [scenes.pair(i).captions[0] for i in range(4)]
    assert np.array_equal(some.relevance([1, 2], captions), scenes.relevance([2, 3], captions))
    assert (some.class_names, some.templates) == (scenes.class_names, scenes.templates)
    batches = Batches(some, tokens, tiny.run.preprocess, batch_size=16, seed=0)
    allowed = {tuple(tokens([text], ["k"])[0][0].tolist()) for i in range(63) for text in some.pair(i).captions}
    for position in range(4):
        batch = batches.batch(position)
        rows = [row[: int(mask.sum())].tolist() for row, mask in zip(batch.tokens, batch.mask, strict=True)]
        assert all(any(list(one)[: len(row)] == row for one in allowed) for row in rows)


def test_the_truth_of_captions_goes_with_them(scenes):
    some = kept(scenes)
    assert all(len(some.pair(i).truth["captions_true"]) == 3 for i in range(5))


OWN_FIELDS = [{"camera": "X100"}, "M", 7, True, ["one"], [], {"a": 1, "b": 2}]


def shards_with(folder: Path, *sides: dict[str, object]) -> Source:
    """Records of two captions each with such a `.json`."""
    grey = io.BytesIO()
    Image.new("RGB", (4, 4)).save(grey, "PNG")
    files = {"png": grey.getvalue(), "txt": "a\nb"}
    samples = [{"__key__": f"{number}", **files, "json": json.dumps(side)} for number, side in enumerate(sides)]
    write_shard(folder / "0.tar", samples)
    return Shards(test=("*.tar",), root=str(folder)).build("test")


@pytest.mark.parametrize("value", OWN_FIELDS, ids=str)
def test_fields_of_a_file_are_not_taken_for_the_truth_of_captions(tmp_path, value):
    side = dict.fromkeys(("details", "captions_true", "text_names"), value)
    whole = shards_with(tmp_path, side, side, side)
    some = KeptSource(whole, np.full(3, 2), np.array([1, 0, 0, 1, 1, 1], dtype=bool), swaps={4: 1})
    assert [some.pair(i).captions for i in range(3)] == [("a",), ("b",), ("b", "b")]
    assert all(some.pair(i).truth == side for i in range(2))
    assert some.pair(2).truth["details"] == value


def test_a_list_of_one_entry_per_caption_goes_with_them(tmp_path):
    whole = shards_with(tmp_path, {"details": ["whole", "part"]}, {"details": "M"})
    some = KeptSource(whole, np.full(2, 2), np.ones(4, dtype=bool), swaps={0: 3})
    assert [some.pair(i).truth["details"] for i in range(2)] == [[None, "part"], "M"]


def test_features_are_picked_text_by_text(tmp_path):
    texts = np.arange(6 * 5 * 2, dtype=np.float32).reshape(6, 5, 2)
    np.savez(tmp_path / "f.npz", image=np.arange(18, dtype=np.float32).reshape(6, 3), text=texts)
    whole = Shuffle(1.0).applied_to(FeatureFiles([tmp_path / "f.npz"]))
    some = kept(whole)
    own = [whole.text_features([i])[0][::2] for i in range(1, 6)]
    assert torch.equal(some.text_features(range(5))[0], torch.cat(own))
    assert some.text_features(range(5))[2].tolist() == [i for i in range(5) for _ in range(3)]
    assert torch.equal(some.text_features([3, 1], per_image=1)[0], torch.stack([own[3][0], own[1][0]]))
    assert torch.equal(some.image_features([2])[0], whole.image_features([3])[0])
    assert (some.image_width, some.text_width, len(some)) == (3, 2, 5)
    tokens = CaptionTokenizer.from_config(CaptionTokenizer.Config(kind="none"), ())
    for place, draw in enumerate((0.0, 0.34, 0.99)):
        batch = some.batch([0, 4], [draw, draw], tokens)
        assert torch.equal(batch.tokens.flatten(1), torch.stack([own[0][place], own[4][place]]))
        assert batch.index.tolist() == [0, 4]


def test_features_with_captions_are_drawn_by_their_words(tmp_path, tokens):
    captions = [[f"a red circle number {i} {n}" for n in range(3)] for i in range(4)]
    np.savez(tmp_path / "f.npz", image=np.ones((4, 3), dtype=np.float32), captions=np.array(captions))
    some = kept(FeatureFiles([tmp_path / "f.npz"]))
    assert some.pair(0).captions == (captions[1][0], captions[1][2])
    batch = some.batch([0, 1], [0.6, 0.2], tokens)
    assert torch.equal(batch.tokens, tokens([captions[1][2], captions[2][0]], ["a", "b"])[0])


@pytest.fixture(scope="module")
def shards(tmp_path_factory, scenes) -> str:
    folder = tmp_path_factory.mktemp("shards")
    write_shards(scenes, folder, 16, 64, lambda *_: None)
    return str(folder / "*.tar")


def test_shards_also_in_another_process(shards, tokens, tiny):
    whole = Shards(train=shards, validation=shards).build("train")
    some = pickle.loads(pickle.dumps(kept(whole)))
    assert some.pair(2).captions == whole.pair(3).captions[::2]
    one, other = (
        Batches(source, tokens, tiny.run.preprocess, batch_size=8, seed=0).batch(0) for source in (kept(whole), some)
    )
    assert torch.equal(one.images, other.images)
    assert torch.equal(one.tokens, other.tokens)


def test_a_mixture(shards):
    parts = {"one": Shards(train=shards, validation=shards), "two": Shards(train=shards, validation=shards)}
    whole = Mixture.Config(parts=parts).build("train")
    assert kept(whole).pair(70).captions == whole.pair(71).captions[::2]


def test_a_file_comes_back_and_is_the_same_to_the_byte(scenes, tmp_path):
    keep = every_second(scenes)
    right = np.linspace(0, 1, len(keep), dtype=np.float32)
    for name in ("a", "b"):
        write(scenes, tmp_path / name, right, keep)
    table, note = read_keep(tmp_path / "a")
    assert np.array_equal(table.keep, keep)
    assert np.array_equal(table.right, right)
    assert (note["version"], note["noise"]) == (1, 0.5)
    assert len({(tmp_path / name / TABLE).read_bytes() for name in ("a", "b")}) == 1
    columns = parquet.read_table(tmp_path / "a" / TABLE).column_names
    assert columns == ["key", "caption", "fingerprint", "p_right", "weight", "decision", "reason", "kind"]


def test_a_recipe_goes_by_the_file_or_decides_anew(scenes, tmp_path):
    keep = every_second(scenes)
    right = np.tile(np.array([0.9, 0.8, 0.4, 0.2, 0.1], dtype=np.float32), 64)
    write(scenes, tmp_path, right, keep, noise=0.6)
    counts = {
        rule: sum(len(one.pair(i).captions) for i in range(len(one)))
        for rule in ("decision", "threshold", "share")
        for one in [Keep(str(tmp_path), rule, 0.3).applied_to(scenes)]
    }
    assert counts == {"decision": 63 * 3, "threshold": 64 * 3, "share": 64 * 2}


def test_nothing_to_keep_by_is_the_source_itself(scenes):
    assert Keep().applied_to(scenes) is scenes


def test_an_image_with_one_wrong_caption_of_five_keeps_four(scenes, tmp_path):
    right = np.ones(320, dtype=np.float32)
    right[7] = 0.01
    write(scenes, tmp_path, right, right > 1)
    some = Keep(str(tmp_path), "threshold").applied_to(scenes)
    assert len(some) == 64
    assert some.pair(1).captions == tuple(text for n, text in enumerate(scenes.pair(1).captions) if n != 2)


def test_by_weights_every_caption_is_kept_and_counts_as_it_is_likely(scenes, tokens, tiny, tmp_path):
    right = np.linspace(0.1, 0.9, 320, dtype=np.float32)
    right[:5] = np.nan
    write(scenes, tmp_path, right, right > 0.5)
    some = Keep(str(tmp_path), "weights").applied_to(scenes)
    assert len(some) == 64
    batches = Batches(some, tokens, tiny.run.preprocess, batch_size=16, seed=0)
    for position in range(4):
        batch = batches.batch(position)
        weights = batch.side["pair_weight"].numpy()
        expected = [some.caption_weights(index) for index in batch.index.tolist()]
        assert all(weight in own for weight, own in zip(weights, expected, strict=True))
        assert all(weight == 1 for weight, index in zip(weights, batch.index.tolist(), strict=True) if index == 0)


def test_weights_in_the_file_count_and_those_of_one_do_not(scenes, tmp_path):
    keep = every_second(scenes)
    write(scenes, tmp_path, np.ones(320, dtype=np.float32), keep)
    assert Keep(str(tmp_path)).applied_to(scenes).caption_weights is None
    write(scenes, tmp_path, np.ones(320, dtype=np.float32), keep, weight=np.linspace(0, 2, 320, dtype=np.float32))
    assert Keep(str(tmp_path)).applied_to(scenes).caption_weights(0).tolist() == pytest.approx(
        [10 / 319, 14 / 319, 18 / 319]
    )


@pytest.mark.parametrize("rule", ["threshold", "share"])
def test_a_dropped_caption_whose_decision_alone_is_edited_counts_in_full(scenes, tmp_path, rule):
    keep = every_second(scenes)
    edited = keep.copy()
    edited[1] = True
    write(scenes, tmp_path, np.ones(320, dtype=np.float32), edited, weight=keep.astype(np.float32), rule=rule)
    some = Keep(str(tmp_path)).applied_to(scenes)
    assert some.pair(0).captions == scenes.pair(0).captions[1:2]
    assert some.caption_weights is None


def test_a_weight_of_nothing_is_meant_where_captions_count_by_theirs(scenes, tmp_path):
    weight = np.ones(320, dtype=np.float32)
    weight[1] = 0
    write(scenes, tmp_path, weight, np.ones(320, dtype=bool), weight=weight, rule="weights")
    assert Keep(str(tmp_path)).applied_to(scenes).caption_weights(0).tolist() == [1, 0, 1, 1, 1]


def test_weights_of_features_go_with_the_texts_drawn(tmp_path):
    np.savez(tmp_path / "f.npz", image=np.ones((3, 3)), text=np.ones((3, 2, 3)))
    whole = FeatureFiles([tmp_path / "f.npz"])
    weights = np.arange(6, dtype=np.float32)
    some = KeptSource(whole, np.array([2, 2, 2]), np.array([0, 1, 1, 1, 1, 0], dtype=bool), weights)
    tokens = CaptionTokenizer.from_config(CaptionTokenizer.Config(kind="none"), ())
    assert some.batch([0, 1, 1, 2], [0.9, 0.0, 0.9, 0.9], tokens).side["pair_weight"].tolist() == [1, 2, 3, 4]


def other_seed() -> Source:
    return Scenes.Config(train_size=64, seed=5).build("train")


def reordered() -> Source:
    return subset(Scenes.Config(train_size=64).build("train"), [1, 0, *range(2, 64)])


def fewer_captions() -> Source:
    keep = np.ones(320, dtype=bool)
    keep[9] = False
    return KeptSource(Scenes.Config(train_size=64).build("train"), np.full(64, 5), keep)


def more() -> Source:
    return Scenes.Config(train_size=65).build("train")


def shuffled() -> Source:
    return Shuffle(0.5).applied_to(Scenes.Config(train_size=64).build("train"))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (more, ("says nothing of the record", "again")),
        (reordered, ("other data", "stands here where")),
        (fewer_captions, ("other data", "which the data does not")),
        (shuffled, ("other data", "other captions here")),
        (other_seed, ("other captions here",)),
    ],
)
def test_a_file_of_other_data_is_refused_with_the_first_key(tmp_path, source, words):
    own = Scenes.Config(train_size=64).build("train")
    write(own, tmp_path, np.ones(320, dtype=np.float32), np.ones(320, dtype=bool))
    with pytest.raises(UserError) as error:
        Keep(str(tmp_path)).applied_to(source())
    assert all(word in str(error.value) for word in (*words, str(tmp_path / TABLE), '"'))


def test_records_of_which_it_says_nothing_can_be_left_out(tmp_path):
    whole = Scenes.Config(train_size=65).build("train")
    own = subset(whole, [*range(10), *range(11, 65)])  # whoever made it could not read one of the pictures
    write(own, tmp_path, np.ones(320, dtype=np.float32), np.arange(320) != 7)
    with pytest.raises(UserError, match=r"could not be read for judging.*keep\.unknown=drop"):
        Keep(str(tmp_path)).applied_to(whole)
    with pytest.warns(Notice, match=f'says nothing of 1 of 65 records, "{whole.pair(10).key}" the first'):
        kept = Keep(str(tmp_path), unknown="drop").applied_to(whole)
    assert kept.records.tolist() == [*range(10), *range(11, 65)]
    assert [len(kept.pair(index).captions) for index in range(64)] == [5, 4, *[5] * 62]
    assert kept.pair(10).captions == whole.pair(11).captions
    with pytest.raises(UserError, match="names none of its records"):
        Keep(str(tmp_path), unknown="drop").applied_to(subset(whole, [10]))
    with pytest.raises(UserError, match="stands here where"):
        Keep(str(tmp_path), unknown="drop").applied_to(subset(whole, [1, 0, *range(2, 65)]))


def test_features_whose_texts_were_handed_on_are_other_data(tmp_path):
    np.savez(tmp_path / "f.npz", image=np.ones((8, 3)), text=np.ones((8, 3)))
    whole = FeatureFiles([tmp_path / "f.npz"])
    write(whole, tmp_path, np.ones(8, dtype=np.float32), np.ones(8, dtype=bool))
    Keep(str(tmp_path)).applied_to(whole)
    with pytest.raises(UserError, match="other captions here"):
        Keep(str(tmp_path)).applied_to(Shuffle(1.0).applied_to(whole))


def spoil_version(folder: Path) -> None:
    (folder / NOTE).write_text(json.dumps({"version": 3}))


def spoil_note(folder: Path) -> None:
    (folder / NOTE).write_text("{")


def no_note(folder: Path) -> None:
    (folder / NOTE).unlink()


def no_table(folder: Path) -> None:
    (folder / TABLE).unlink()


def spoil_table(folder: Path) -> None:
    (folder / TABLE).write_bytes(b"no parquet")


def no_column(folder: Path) -> None:
    table = parquet.read_table(folder / TABLE)
    parquet.write_table(table.drop_columns(["p_right"]), folder / TABLE)


def no_others(folder: Path) -> None:
    (folder / NOTE).write_text(json.dumps({"version": 2}))


def others_beyond(folder: Path) -> None:
    table = parquet.read_table(folder / TABLE)
    others = pyarrow.array(np.full(len(table), len(table)))
    parquet.write_table(table.append_column("instead", others), folder / TABLE)


def other_decision(folder: Path) -> None:
    table = parquet.read_table(folder / TABLE)
    decisions = table["decision"].to_pylist()
    decisions[3] = "perhaps"
    place = table.column_names.index("decision")
    parquet.write_table(table.set_column(place, "decision", [decisions]), folder / TABLE)


def missing_rows(folder: Path) -> None:
    parquet.write_table(parquet.read_table(folder / TABLE).slice(5), folder / TABLE)


def below_zero(folder: Path) -> None:
    table = parquet.read_table(folder / TABLE)
    place = table.column_names.index("weight")
    parquet.write_table(table.set_column(place, "weight", [[-1.0] * len(table)]), folder / TABLE)


def weights_in_words(folder: Path) -> None:
    spoil_weights(folder, lambda weight: f"{weight:g}")


def spoil_weights(folder: Path, written: Callable[[float], object]) -> None:
    table = parquet.read_table(folder / TABLE)
    place = table.column_names.index("weight")
    values = [written(weight) for weight in table["weight"].to_pylist()]
    parquet.write_table(table.set_column(place, "weight", [values]), folder / TABLE)


def drops_all(folder: Path) -> None:
    table = parquet.read_table(folder / TABLE)
    place = table.column_names.index("decision")
    parquet.write_table(table.set_column(place, "decision", [["drop"] * len(table)]), folder / TABLE)


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (spoil_version, "version 3"),
        (spoil_note, "cannot be read"),
        (no_note, "holds no keep.json"),
        (no_table, "cannot be read"),
        (spoil_table, "cannot be read"),
        (no_column, "p_right"),
        (no_others, "instead"),
        (others_beyond, "replaced by that of row"),
        (other_decision, "'perhaps'"),
        (missing_rows, "says nothing of the record"),
        (drops_all, "no caption is kept"),
        (below_zero, "weight"),
        (weights_in_words, 'the column "weight" holds no numbers'),
    ],
)
def test_a_bad_file_is_one_sentence(scenes, tmp_path, spoil, word):
    write(scenes, tmp_path, np.ones(320, dtype=np.float32), np.ones(320, dtype=bool))
    spoil(tmp_path)
    with pytest.raises(UserError) as error:
        Keep(str(tmp_path)).applied_to(scenes)
    assert word in str(error.value)
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)


def test_weights_may_be_decimals(scenes, tmp_path):
    weight = np.tile(np.array([0.5, 1, 0.25, 2, 0], dtype=np.float32), 64)
    write(scenes, tmp_path, np.ones(320, dtype=np.float32), np.ones(320, dtype=bool), weight=weight, rule="weights")
    spoil_weights(tmp_path, lambda one: Decimal(f"{one:.4f}"))
    assert Keep(str(tmp_path)).applied_to(scenes).caption_weights(0).tolist() == [0.5, 1, 0.25, 2, 0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rule": None}, '"rule" is None, and must be a table'),
        ({"rule": "threshold"}, "\"rule\" is 'threshold'"),
        ({"rule": {"rule": "threshold"}}, '"threshold" of "rule" is None, and must be a number'),
        ({"rule": {"rule": "threshold", "threshold": True}}, '"threshold" of "rule" is True'),
        ({"truth": None}, '"truth" is None'),
        ({"truth": {"wrong": "half"}}, '"wrong" of "truth" is \'half\''),
        ({"judges": None}, '"judges" is None, and must be a list'),
        ({"judges": [None]}, 'judge 1 of "judges" is None'),
        ({"judges": [{"auroc_of_shuffled": 0.9}, {}]}, '"auroc_of_shuffled" of judge 2 of "judges" is None'),
        ({"finding": 3}, '"finding" is 3, and must be text'),
    ],
)
def test_a_note_of_another_form_is_refused_before_anything_is_trained(scenes, tmp_path, change, words):
    write(scenes, tmp_path, np.ones(320, dtype=np.float32), np.ones(320, dtype=bool))
    (tmp_path / NOTE).write_text(json.dumps({**json.loads((tmp_path / NOTE).read_text()), **change}))
    for read in (Keep(str(tmp_path)).applied_to, lambda _: cleaning_section(Keep(str(tmp_path)), 1.0)):
        with pytest.raises(UserError) as error:
            read(scenes)
        assert f"{tmp_path / NOTE}: {words}" in str(error.value)


@pytest.mark.parametrize(
    ("setting", "word"),
    [
        ("keep.threshold=1.5", "threshold is 1.5"),
        ("keep.rule=most", "keep.rule"),
        ("clean.folds=1", "folds must be at least 2"),
        ("clean.rounds=10", "rounds must be from 1 to 9"),
        ("clean.per=pixel", "clean.per"),
    ],
)
def test_a_wrong_setting_is_refused(setting, word):
    with pytest.raises(UserError, match=word):
        load_run("demo", [setting])


def test_the_folder_may_be_said_with_the_data(tmp_path):
    recipe = tmp_path / "mine.toml"
    recipe.write_text('extends = "demo"\n[data]\nkeep = "cleaned"\n[keep]\nrule = "weights"\n')
    loaded = load_run(recipe)
    assert loaded.run.keep == Keep("cleaned", "weights")
    assert "keep" not in loaded.table["data"]
    assert load_run(recipe, ["keep.folder=other"]).run.keep.folder == "other"
    assert load_run(recipe, ["data.keep=another"]).run.keep.folder == "another"
    with pytest.raises(UserError, match=r"data\.keep and keep\.folder"):
        load_run("demo", ["data.keep=a", "keep.folder=b"])
    recipe.write_text('extends = "demo"\n[data]\nkeep = 3\n')
    with pytest.raises(UserError, match=r"mine\.toml:3: .*keep\.folder.* must be text"):
        load_run(recipe)


def test_keeping_and_cleaning_anew_exclude_one_another():
    with pytest.raises(UserError, match="set one of them"):
        load_run("demo", ["keep.folder=x", "clean.enabled=true"])


def test_records_that_are_held_out_are_decided_on_and_not_looked_for(tmp_path):
    """All of the files were cleaned, and some of it is held out for validation when they are trained on."""
    own = Scenes.Config(train_size=64).build("train")
    right = np.random.default_rng(0).random(320).astype(np.float32)
    write(own, tmp_path, right, right > 0.3)
    here = [number for number in range(64) if number % 5]
    with pytest.warns(Notice, match="decides on 13 records that are not trained on here"):
        some = Keep(str(tmp_path)).applied_to(subset(own, here))
    whole = Keep(str(tmp_path)).applied_to(own)
    captions = {whole.pair(index).key: whole.pair(index).captions for index in range(len(whole))}
    assert {some.pair(index).key: some.pair(index).captions for index in range(len(some))} == {
        key: texts for key, texts in captions.items() if key in {own.pair(number).key for number in here}
    }
    assert some.selection["captions"] == int((right > 0.3).reshape(64, 5)[here].sum())
    assert some.selection["digest"] != whole.selection["digest"]
