"""Published pickles of sentiment data: arrays are read, and nothing is called."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from equipoise.data.modalities import ModalFiles
from equipoise.data.modalities.published import convert_pickle
from equipoise.types import UserError


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
