"""Published pickles of sentiment data: arrays are read, and nothing is called."""

import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from equipoise.cli import main
from equipoise.config import load_run
from equipoise.data.modalities import ModalFiles
from equipoise.data.modalities.published import convert_pickle
from equipoise.io import plain_pickle
from equipoise.types import UserError
from equipoise.workflows.train_model import train_run


def published(count: int = 8, ids: object = None) -> dict[str, dict[str, object]]:
    """As MulT's files are: 64-bit numbers, labels [N, 1, 1], -inf in the audio."""
    chance = np.random.default_rng(0)

    def table(rows: int, name: str) -> dict[str, object]:
        audio = chance.normal(size=(rows, 5, 4))
        audio[0, 2, 1] = -np.inf
        return {
            "text": chance.normal(size=(rows, 5, 6)).astype(np.float32),
            "audio": audio,
            "vision": chance.normal(size=(rows, 5, 3)),
            "labels": chance.uniform(-3, 3, size=(rows, 1, 1)),
            "id": np.array([[f"{name}{row // 2}", "0.1", "2.5"] for row in range(rows)], dtype=ids or object),
        }

    return {"train": table(count, "a"), "valid": table(3, "b"), "test": table(4, "c")}


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("ids", [object, "U8", "S8"])
def test_a_published_pickle_becomes_files_of_modalities(tmp_path: Path, protocol: int, ids: object) -> None:
    given = published(ids=ids)
    path = tmp_path / "mosei_senti_data.pkl"
    path.write_bytes(pickle.dumps(given, protocol=protocol))
    assert convert_pickle(path, tmp_path / "out") == {"train": 8, "validation": 3, "test": 4}
    settings = ModalFiles(root=str(tmp_path / "out"))
    train, test = settings.build("train"), settings.build("test")
    assert (train.modalities, train.outputs) == ({"audio": 4, "text": 6, "vision": 3}, 1)
    assert (len(train), len(settings.build("validation")), len(test)) == (8, 3, 4)
    assert np.allclose(train.labels.numpy(), given["train"]["labels"].ravel())  # type: ignore[attr-defined]
    assert train.parts["audio"].values[0, 2, 1] == 0.0
    assert test.pair(0).key == "c0_0.1_2.5"
    assert len(set(train.keys)) == 8


class Hostile:
    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("place", ["beside", "inside an array", "as a split"])
def test_a_hostile_pickle_is_refused_and_nothing_runs(tmp_path: Path, place: str) -> None:
    touched, given = tmp_path / "touched", published()
    if place == "beside":
        given["train"]["more"] = Hostile(touched)
    elif place == "inside an array":
        given["train"]["id"] = np.array([Hostile(touched)] * 8, dtype=object)
    else:
        given["extra"] = Hostile(touched)  # type: ignore[assignment]
    path = tmp_path / "bad.pkl"
    path.write_bytes(pickle.dumps(given))
    with pytest.raises(UserError, match=r"bad\.pkl is no pickle of plain data"):
        convert_pickle(path, tmp_path / "out")
    assert not touched.exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", [[1, 2], {"train": 3}, {"train": {"label": np.zeros(3)}}])
def test_another_pickle_is_told(tmp_path: Path, content: object) -> None:
    path = tmp_path / "other.pkl"
    path.write_bytes(pickle.dumps(content))
    with pytest.raises(UserError, match=r"other\.pkl.*(no table of train|no arrays)"):
        convert_pickle(path, tmp_path / "out")


MOSEI = {"text": 300, "audio": 74, "vision": 35}  # numbers of each of 50 steps


def mosei(rows: dict[str, int]) -> dict[str, dict[str, object]]:
    """The layout of mosei_senti_data.pkl: 50 aligned steps, audio that is -inf here and there, id [N, 3]."""
    chance, made = np.random.default_rng(0), {}
    for split, count in rows.items():
        table: dict[str, object] = {
            name: chance.normal(size=(count, 50, width)).astype(np.float32) for name, width in MOSEI.items()
        }
        table["audio"][1, 7] = -np.inf  # type: ignore[index]
        table["labels"] = chance.uniform(-3, 3, size=(count, 1, 1)).astype(np.float32)
        table["id"] = np.array([[f"{split}{row}", f"{row}.5", f"{row + 1}.25"] for row in range(count)], dtype=object)
        made[split] = table
    return made


@pytest.mark.parametrize("protocol", range(6))
def test_the_layout_of_mosei_is_converted_and_read(tmp_path: Path, protocol: int) -> None:
    given = mosei({"train": 5, "valid": 2, "test": 3})
    path = tmp_path / "mosei_senti_data.pkl"
    path.write_bytes(pickle.dumps(given, protocol=protocol))
    assert main(["data", "convert", str(path), str(tmp_path / "mosei")]) == 0
    for split, name in (("train", "train"), ("validation", "valid"), ("test", "test")):
        source = load_run("gmc-mosei", [f"data.root={tmp_path / 'mosei'}"]).run.data.build(split)
        assert (source.modalities, source.lengths, source.outputs) == (MOSEI, dict.fromkeys(MOSEI, 50), 1)  # type: ignore[attr-defined]
        assert source.pair(1).key == f"{name}1_1.5_2.25"
        for modality in MOSEI:
            expected = np.nan_to_num(given[name][modality], neginf=0.0)  # type: ignore[call-overload]
            assert np.array_equal(source.parts[modality].values.numpy(), expected)  # type: ignore[attr-defined]
        assert np.array_equal(source.labels.numpy(), given[name]["labels"].ravel())  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_recipe_of_mosei_trains_on_its_layout(tmp_path: Path) -> None:
    path = tmp_path / "mosei_senti_data.pkl"
    path.write_bytes(pickle.dumps(mosei({"train": 8, "valid": 3, "test": 3})))
    convert_pickle(path, tmp_path / "mosei")
    small = ["training.epochs=0", "training.steps=1", "training.batch_size=4", "modalities.joint.layers=1"]
    loaded = load_run("gmc-mosei", [f"data.root={tmp_path / 'mosei'}", *small, "objective.name=gmc_m2"])
    _, outcome = train_run(loaded, tmp_path / "run")
    assert outcome.step == 1


def test_lengths_beside_the_arrays_become_masks(tmp_path: Path) -> None:
    """As in the editions that are not aligned: vectors of labels, and lists of lengths."""
    given = {name: dict(table) for name, table in mosei({"train": 4, "test": 3}).items()}
    for table in given.values():
        count = len(table["text"])  # type: ignore[arg-type]
        table["regression_labels"] = np.ravel(table.pop("labels"))  # type: ignore[call-overload]
        table |= {"audio_lengths": [3 + row for row in range(count)], "vision_lengths": np.full(count, 50)}
    path = tmp_path / "unaligned.pkl"
    path.write_bytes(pickle.dumps(given))
    convert_pickle(path, tmp_path / "out")
    source = ModalFiles(root=str(tmp_path / "out"), validation_share=0.0).build("train")
    assert source.parts["audio"].mask.sum(1).tolist() == [3, 4, 5, 6]  # type: ignore[union-attr]
    assert source.parts["vision"].mask.all()  # type: ignore[union-attr]
    assert source.modalities == MOSEI


def refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.pkl"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"bad\.pkl"):
        convert_pickle(path, tmp_path / "out")
    assert not (tmp_path / "touched").exists()
    assert not (tmp_path / "out").exists()


def test_pickles_written_by_hand_call_nothing(tmp_path: Path) -> None:
    touch = f"touch {tmp_path / 'touched'}".encode()
    scalar = b"cnumpy.core.multiarray\nscalar\n"
    for content in (
        b"cos\nsystem\n(S'" + touch + b"'\ntR.",
        b"(S'" + touch + b"'\nios\nsystem\n.",  # INST
        b"(cos\nsystem\nS'" + touch + b"'\no.",  # OBJ
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c" + bytes([len(touch)]) + touch + b"\x85R.",  # STACK_GLOBAL
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"cnumpy\nload\n(S'x'\ntR.",
        b"\x80\x02\x82\x01.",  # a number that stands for a function
        b"Pname\n.",  # a thing that is kept elsewhere
        scalar + b"}S'__defaults__'\n(I1\ntsb.",  # a change of the reader's own function
        b"\x80\x04]\x94h\x00a.",  # a list that holds itself
        b"\x80\x04" + b"]" * 100_000 + b"a" * 99_999 + b".",
        b"\x80\x04\x8e" + (1 << 60).to_bytes(8, "little") + b"x.",  # bytes that are not there
        pickle.dumps(published())[:-40],
        b"",
    ):
        refused(tmp_path, content)
    assert plain_pickle._scalar.__defaults__ is None


def test_an_array_that_is_larger_than_its_bytes_is_refused(tmp_path: Path) -> None:
    good = pickle.dumps({"train": {"text": np.zeros((2, 3), np.float32)}}, protocol=2)
    assert good.count(b"K\x02K\x03") == 1  # the shape
    refused(tmp_path, good.replace(b"K\x02K\x03", b"J\xff\xff\xff\x7fK\x03"))


def test_a_small_pickle_takes_little_memory(tmp_path: Path) -> None:
    """A number of the memo that is far beyond what the file holds: C's reader makes a list as long as that."""
    tracemalloc.start()
    refused(tmp_path, b"\x80\x04Nr" + (1 << 24).to_bytes(4, "little") + b".")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6
