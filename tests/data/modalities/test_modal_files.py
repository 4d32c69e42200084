"""Samples of named modalities out of files: what is read, and what is refused in a sentence."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from equipoise.data.modalities import ModalFiles
from equipoise.data.source import CLASS, HAS_MODALITY, MODALITY, MODALITY_MASK, VALUE
from equipoise.types import UserError

REAL = Path(os.environ.get("EQUIPOISE_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))
MOSI = REAL / "mosi" / "mosi_utterances.npz"


def arrays(count: int = 12, seed: int = 0) -> dict[str, np.ndarray]:
    chance = np.random.default_rng(seed)
    return {
        "audio": chance.normal(size=(count, 5, 3)).astype(np.float32),
        "audio_lengths": chance.integers(1, 6, count),
        "video": chance.normal(size=(count, 4)).astype(np.float32),
        "label": np.arange(count) % 3,
        "id": np.array([f"v{number // 3}_{number}" for number in range(count)]),
    }


def saved(path: Path, **changed: np.ndarray | None) -> str:
    found = {name: value for name, value in {**arrays(), **changed}.items() if value is not None}
    np.savez(path, **found)
    return str(path)


def test_a_batch_holds_values_masks_and_labels_of_its_samples(tmp_path: Path) -> None:
    source = ModalFiles(train=saved(tmp_path / "a.npz"), validation_share=0.0).build("train")
    given = arrays()
    assert (len(source), source.modalities, source.lengths, source.outputs) == (
        12, {"audio": 3, "video": 4}, {"audio": 5, "video": 1}, 3,
    )  # fmt: skip
    side = source.batch([7, 2]).side
    lengths = given["audio_lengths"][[7, 2]]
    mask = np.arange(max(lengths)) < lengths[:, None]
    assert np.array_equal(side[f"{MODALITY_MASK}audio"].numpy(), mask)
    assert np.array_equal(side[f"{MODALITY}audio"].numpy(), given["audio"][[7, 2], : max(lengths)] * mask[..., None])
    assert np.array_equal(side[f"{MODALITY}video"].numpy(), given["video"][[7, 2]])
    assert side[CLASS].tolist() == [1, 2]
    assert side[f"{HAS_MODALITY}video"].all()
    assert source.pair(7).key == "v2_7"


def test_npz_safetensors_and_parquet_say_the_same(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    given = arrays()
    saved(tmp_path / "a.npz")
    tensors = {name: torch.from_numpy(value) for name, value in given.items() if name != "id"}
    save_file(tensors, tmp_path / "b.safetensors")
    (tmp_path / "b.json").write_text(json.dumps({"id": given["id"].tolist()}))
    parquet.write_table(arrow.table({name: value.tolist() for name, value in given.items()}), tmp_path / "c.parquet")
    files = [tmp_path / name for name in ("a.npz", "b.safetensors", "c.parquet")]
    sides = [ModalFiles(train=str(path), validation_share=0.0).build("train").batch(range(12)).side for path in files]
    for side in sides[1:]:
        assert {name: value.tolist() for name, value in side.items()} == {
            name: value.tolist() for name, value in sides[0].items()
        }


@pytest.mark.parametrize("layout", ["array", "names", "folder"])
def test_files_say_which_samples_are_of_which_split(tmp_path: Path, layout: str) -> None:
    given, words = arrays(), np.array(["train"] * 6 + ["valid"] * 3 + ["test"] * 3)
    root = tmp_path / "all.npz"
    if layout == "array":
        np.savez(root, **given, split=words)
    elif layout == "names":
        np.savez(root, **{f"{one}_{name}": value[words == one] for one in set(words) for name, value in given.items()})
    else:
        root = tmp_path
        for one in set(words):
            np.savez(tmp_path / f"{one}.npz", **{name: value[words == one] for name, value in given.items()})
    settings = ModalFiles(root=str(root))
    for split, rows in (("train", range(6)), ("validation", range(6, 9)), ("test", range(9, 12))):
        source = settings.build(split)
        assert [source.pair(row).key for row in range(len(source))] == given["id"][list(rows)].tolist()


def test_validation_is_held_out_of_training_by_whole_groups(tmp_path: Path) -> None:
    count = 300
    given = arrays(count)
    np.savez(tmp_path / "a.npz", **given)
    settings = ModalFiles(train=str(tmp_path / "a.npz"), validation_share=0.3, grouped=True)
    with pytest.warns(UserWarning, match="test samples too"):
        settings.build("test")
    train, held = (settings.build(split).keys for split in ("train", "validation"))
    assert sorted(train + held) == sorted(given["id"].tolist())
    assert not {key.split("_")[0] for key in train} & {key.split("_")[0] for key in held}
    assert 0.15 < len(held) / count < 0.45


def test_files_of_different_modalities_are_joined_by_ids(tmp_path: Path) -> None:
    given = arrays()
    order = np.random.default_rng(1).permutation(12)
    audio, lengths = (given[name] for name in ("audio", "audio_lengths"))
    np.savez(tmp_path / "audio.npz", audio=audio, audio_lengths=lengths, id=given["id"], label=given["label"])
    np.savez(tmp_path / "video.npz", video=given["video"][order], id=given["id"][order])
    source = ModalFiles(train=str(tmp_path), validation_share=0.0).build("train")
    assert np.array_equal(source.batch(range(12)).side[f"{MODALITY}video"].numpy(), given["video"])
    np.savez(tmp_path / "video.npz", video=given["video"][:9], id=given["id"][:9])
    with pytest.raises(UserError, match=r"3 of 12 ids are not in it.*v3_9.*data\.incomplete"):
        ModalFiles(train=str(tmp_path), validation_share=0.0).build("train")
    side = ModalFiles(train=str(tmp_path), validation_share=0.0, incomplete=True).build("train").batch(range(12)).side
    assert side[f"{HAS_MODALITY}video"].tolist() == [True] * 9 + [False] * 3
    assert not side[f"{MODALITY}video"][9:].any()
    np.savez(tmp_path / "video.npz", video=given["video"], id=np.array([f"other{n}" for n in range(12)]))
    with pytest.raises(UserError, match="do not join"):
        ModalFiles(train=str(tmp_path), incomplete=True).build("train")


def test_labels_of_joined_files_come_from_any_of_them_and_may_not_differ(tmp_path: Path) -> None:
    given = arrays()
    audio, lengths, ids, label = (given[name] for name in ("audio", "audio_lengths", "id", "label"))
    np.savez(tmp_path / "audio.npz", audio=audio[:9], audio_lengths=lengths[:9], id=ids[:9], label=label[:9])
    np.savez(tmp_path / "video.npz", video=given["video"][3:], id=ids[3:], label=label[3:])
    settings = ModalFiles(train=str(tmp_path), validation_share=0.0, incomplete=True)
    source = settings.build("train")
    assert dict(zip(source.keys, source.labels.tolist(), strict=True)) == dict(zip(ids, label.tolist(), strict=True))
    np.savez(tmp_path / "video.npz", video=given["video"][3:], id=ids[3:], label=(label[3:] + 1) % 3)
    with pytest.raises(UserError, match=r"video\.npz: the label of 'v1_3' is 1, but 0 in a file beside it"):
        settings.build("train")
    np.savez(tmp_path / "video.npz", video=given["video"], id=ids)
    with pytest.raises(UserError, match=r"audio\.npz has labels of 9 of 12 samples"):
        settings.build("train")


def test_a_file_of_one_sample_is_read(tmp_path: Path) -> None:
    """As whoever searches for one has it: a single sample is not the same in every sample."""
    one = {name: value[:1] for name, value in arrays().items()}
    np.savez(tmp_path / "one.npz", **one)
    settings = ModalFiles(train=saved(tmp_path / "a.npz"), test=str(tmp_path / "one.npz"))
    assert len(settings.build("test")) == 1


def test_a_sample_that_lacks_a_modality_holds_zeros_that_are_not_real(tmp_path: Path) -> None:
    given = arrays()
    has = np.arange(12) != 4
    given["audio"][4] = np.nan
    path = saved(tmp_path / "a.npz", audio=given["audio"], has_audio=has)
    side = ModalFiles(train=path, validation_share=0.0).build("train").batch([3, 4]).side
    assert side[f"{HAS_MODALITY}audio"].tolist() == [True, False]
    assert not side[f"{MODALITY}audio"][1].any()
    assert not side[f"{MODALITY_MASK}audio"][1].any()


def test_padding_may_hold_anything(tmp_path: Path) -> None:
    given = arrays()
    given["audio"][np.arange(5) >= given["audio_lengths"][:, None]] = np.nan
    path = saved(tmp_path / "a.npz", audio=given["audio"])
    assert ModalFiles(train=path).build("train").batch([0, 1]).side[f"{MODALITY}audio"].isfinite().all()


def test_labels_are_classes_numbers_or_words(tmp_path: Path) -> None:
    numbers = ModalFiles(train=saved(tmp_path / "a.npz", label=np.linspace(-3, 3, 12)[:, None, None].astype("f4")))
    assert numbers.build("train").outputs == 1
    assert numbers.build("train").batch([0]).side[VALUE].dtype == torch.float32
    words = np.array(["sad", "happy", "angry"] * 4)
    source = ModalFiles(train=saved(tmp_path / "b.npz", label=words), validation_share=0.0).build("train")
    assert (source.classes, source.labels[:3].tolist()) == (("angry", "happy", "sad"), [2, 1, 0])
    assert ModalFiles(train=saved(tmp_path / "c.npz", label=None)).build("train").outputs == 0
    truths = ModalFiles(train=saved(tmp_path / "d.npz", label=np.arange(12) % 2 == 1), validation_share=0.0)
    assert (truths.build("train").classes, truths.build("train").labels[:3].tolist()) == (("0", "1"), [0, 1, 0])


@pytest.mark.parametrize(("label", "told"), [(np.nan, "nan"), (np.inf, "inf"), (0.5, "0.5")])
def test_a_label_that_is_no_class_is_told(tmp_path: Path, label: float, told: str) -> None:
    labels = (np.arange(12) % 2).astype(np.float32)
    labels[7] = label
    settings = ModalFiles(train=saved(tmp_path / "a.npz", label=labels), labels="class", validation_share=0.0)
    with pytest.raises(UserError, match=rf"label '{told}' of row 7 is no class|one is {told}"):
        settings.build("train")


def nan() -> np.ndarray:
    values = arrays()["video"]
    values[5, 1] = np.nan
    return values


WRONG: dict[str, tuple[dict[str, np.ndarray], str]] = {
    "not a number": ({"video": nan()}, r"a\.npz: array 'video' .*not finite in row 5"),
    "constant": ({"video": np.full((12, 4), 7.0)}, "'video' is the same in every sample"),
    "no real step": ({"audio_lengths": np.array([0] + [2] * 11)}, "row 0 of 'audio' has no real step.*audio_lengths"),
    "no real step by mask": (
        {"audio_lengths": None, "audio_mask": np.arange(60).reshape(12, 5) < 55},
        "row 11 of 'audio' has no real step.*audio_mask",
    ),
    "lengths too long": ({"audio_lengths": np.full(12, 6)}, "audio_lengths.*does not fit"),
    "one class": ({"label": np.zeros(12, int)}, "all training samples have the label 0"),
    "too few labels": ({"label": np.arange(11) % 2}, "'label' has 11 entries for 12 samples"),
    "an id twice": ({"id": np.array(["a"] * 12)}, "the id 'a' comes more than once"),
    "rows": ({"video": arrays(11)["video"]}, "rows, but another has"),
    "nobody has it": ({"has_video": np.zeros(12, bool)}, "no sample has 'video'"),
    "an axis too many": ({"video": np.zeros((12, 2, 2, 2), np.float32)}, "none of video|has the shape"),
    "reserved": ({"tags": arrays()["video"]}, "cannot be called 'tags'"),
    "negative class": ({"label": np.arange(12) % 2 - 1}, "'-1' of row 0 is no class"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_what_is_wrong_with_a_file_is_said_in_a_sentence(tmp_path: Path, fault: str) -> None:
    changed, told = WRONG[fault]
    wanted = ("audio", "video") if fault == "an axis too many" else ()
    with pytest.raises(UserError, match=told):
        ModalFiles(train=saved(tmp_path / "a.npz", **changed), modalities=wanted, validation_share=0.0).build("train")


def test_nothing_in_an_npz_is_unpickled(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (tmp_path / "touched",)  # type: ignore[return-value]

    np.savez(tmp_path / "a.npz", **arrays(), extra=np.array([Hostile()], dtype=object))
    with pytest.raises(UserError, match=r"a\.npz: this file cannot be read"):
        ModalFiles(train=str(tmp_path / "a.npz")).build("train")
    assert not (tmp_path / "touched").exists()


def test_texts_kept_as_objects_and_pickles_are_told_with_a_way_out(tmp_path: Path) -> None:
    saved(tmp_path / "a.npz", id=arrays()["id"].astype(object))
    with pytest.raises(UserError, match=r"a\.npz.*array 'id' holds Python objects.*\.astype\(str\)"):
        ModalFiles(train=str(tmp_path / "a.npz")).build("train")
    (tmp_path / "b.npz").write_bytes(pickle.dumps(arrays()))
    with pytest.raises(UserError, match=r"b\.npz.*\(it is no npz file") as told:
        ModalFiles(train=str(tmp_path / "b.npz")).build("train")
    assert "allow_pickle" not in str(told.value)
    (tmp_path / "c.pkl").write_bytes(pickle.dumps(arrays()))
    with pytest.raises(UserError, match=r"c\.pkl.*equipoise data convert"):
        ModalFiles(train=str(tmp_path / "c.pkl")).build("train")


def test_arrays_that_nobody_wants_are_not_read(tmp_path: Path) -> None:
    days = np.array(["2020-01-01"] * 12, dtype="datetime64[D]")
    path = saved(tmp_path / "a.npz", day=days, about=np.array({"by": "me"}, dtype=object))
    with pytest.raises(UserError, match=r"'about' holds Python objects|'day' holds datetime64"):
        ModalFiles(train=path).build("train")
    source = ModalFiles(train=path, modalities=("video",), validation_share=0.0).build("train")
    assert (source.modalities, source.outputs, source.keys[0]) == ({"video": 4}, 3, "v0_0")
    both = ModalFiles(train=path, modalities=("video", "audio"), validation_share=0.0).build("train")
    assert both.batch(range(12)).side[f"{MODALITY_MASK}audio"].sum() == arrays()["audio_lengths"].sum()


def test_a_word_of_split_that_is_none_is_told_and_rows_must_agree(tmp_path: Path) -> None:
    words = np.array(["train"] * 8 + ["hold-out"] * 4)
    path = saved(tmp_path / "a.npz", split=words, version=np.array(3), names=np.array(["x", "y"]))
    with pytest.warns(UserWarning, match=r"a\.npz: 4 samples are of the split 'hold-out'.*they are left out"):
        assert len(ModalFiles(root=path, validation_share=0.0).build("train")) == 8
    path = saved(tmp_path / "b.npz", split=words[:8])
    with pytest.raises(UserError, match=r"has 12 rows and 'split' 8"):
        ModalFiles(root=path, validation_share=0.0).build("train")


def test_a_sample_that_has_nothing_is_told(tmp_path: Path) -> None:
    has = np.arange(12) != 4
    path = saved(tmp_path / "a.npz", has_audio=has, has_video=has)
    with pytest.raises(UserError, match="the sample 'v1_4' has none of audio, video"):
        ModalFiles(train=path, validation_share=0.0).build("train")


def test_the_split_of_a_bad_row_is_told(tmp_path: Path) -> None:
    given = {f"{split}_{name}": value for split in ("train", "test") for name, value in arrays().items()}
    given["test_video"] = nan()
    np.savez(tmp_path / "a.npz", **given)
    with pytest.raises(UserError, match=r"a\.npz, test: array 'video' .*not finite in row 5"):
        ModalFiles(root=str(tmp_path / "a.npz")).build("test")


def test_files_that_are_not_named_or_not_there_are_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.root is empty"):
        ModalFiles().build("train")
    with pytest.raises(UserError, match="no such file"):
        ModalFiles(train=str(tmp_path / "none.npz")).build("train")
    saved(tmp_path / "a.npz")
    with pytest.raises(UserError, match="no samples are for train"):
        ModalFiles(root=str(tmp_path / "a.npz")).build("train")


@pytest.mark.skipif(not MOSI.is_file(), reason=f"{MOSI} is not here, so nothing is tested on real utterances")
def test_mosi_is_read_as_it_is() -> None:
    settings = ModalFiles(root=str(MOSI), grouped=True)
    sizes = {split: len(settings.build(split)) for split in ("train", "validation", "test")}
    assert sizes["train"] + sizes["validation"] == 1447
    assert (sizes["test"], settings.build("test").outputs) == (752, 2)
    assert settings.build("train").modalities == {"audio": 73, "text": 100, "video": 100}
