"""Judged on features, looked at as pictures: `clean` and `audit` with --pictures DATA."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from pyarrow import parquet

from equipoise.cli import main
from equipoise.data.copies.watch import WatchedSource
from equipoise.data.features import FeatureFiles
from equipoise.data.features.pictured import PicturedFeatures, pictures_of
from equipoise.data.files.webdataset import Shards
from equipoise.data.keep.file import NOTE, TABLE
from equipoise.data.source import Pair
from equipoise.reports.curate_page import PAGE
from equipoise.types import UserError
from equipoise.workflows.audit.folds import folds, folds_of
from equipoise.workflows.audit.pictures import PictureData
from equipoise.workflows.clean.judged_data import judged_data

RECORDS, WIDTH, SIDE = 80, 16, 48


def picture(number: int) -> Image.Image:
    """Smooth, and of no other number alike."""
    coarse = torch.rand(1, 3, 6, 6, generator=torch.Generator().manual_seed(number)) * 255
    smooth = torch.nn.functional.interpolate(coarse, (SIDE, SIDE), mode="bicubic").clamp(0, 255)
    return Image.fromarray(smooth[0].permute(1, 2, 0).to(torch.uint8).numpy())


def words_of(number: int) -> list[str]:
    return [f"photo {number} seen by day", f"photo {number} seen by night"]


def album(folder: Path, copies: dict[int, int] | None = None) -> Path:
    """A folder of pictures with their captions; `copies` says whose picture some have instead of their own."""
    folder.mkdir()
    for number in range(RECORDS):
        picture((copies or {}).get(number, number)).save(folder / f"p{number:03d}.png")
        (folder / f"p{number:03d}.txt").write_text("\n".join(words_of(number)))
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with pictures and their features, which are in another order, and the same without keys."""
    folder = tmp_path_factory.mktemp("pictured")
    album(folder / "photos")
    rng = np.random.default_rng(0)
    order = rng.permutation(RECORDS)
    shared = rng.normal(size=(RECORDS, 1, WIDTH))
    texts = (shared + rng.normal(size=(RECORDS, 2, WIDTH)) / 6)[order].astype(np.float32)
    turned, _ = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))  # no two features are near by chance
    images = (shared[:, 0] @ turned)[order].astype(np.float32)
    arrays = {"image": images, "text": texts}
    captions, keys = np.array([words_of(n) for n in order]), np.array([f"p{n:03d}.png" for n in order])
    np.savez(folder / "f.npz", **arrays, keys=keys, captions=captions)
    np.savez(folder / "wordless.npz", **arrays, keys=keys)
    np.savez(folder / "keyless.npz", **arrays)
    np.savez(folder / "missing.npz", **arrays, keys=np.array([*keys[:-1], "p999.png"]), captions=captions)
    np.savez(folder / "others.npz", **arrays, keys=keys, captions=np.roll(captions, 1, axis=0))
    return folder


def settings(file: Path) -> list[str]:
    values: dict[str, object] = {
        **dict.fromkeys(("data.train", "data.validation", "data.test"), str(file)),
        **dict.fromkeys(("image.width", "text.width", "space.dim"), WIDTH),
        **dict.fromkeys(("image.dropout", "text.dropout"), 0.0),
        "shuffle.share": 0.2,
        "training.steps": 100,
        "training.batch_size": 20,
        "training.warmup_steps": 5,
        "training.learning_rate": 0.02,
    }
    return [word for key, value in values.items() for word in ("--set", f"{key}={json.dumps(value)}")]


def clean(folder: Path, out: Path, photos: Path | None = None, *more: str) -> int:
    pictures = ["--pictures", str(photos)] if photos else []
    return main(["clean", "features", *settings(folder / "f.npz"), *pictures, *more, "--out", str(out)])


@pytest.fixture(scope="module")
def cleaned(made, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("cleaned") / "pictured"
    assert clean(made, out, made / "photos") == 0
    return out


def mean_colour(jpeg: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB"), dtype=float).mean(axis=(0, 1))


def test_every_case_shows_the_picture_of_its_record(cleaned):
    page = (cleaned / PAGE).read_text()
    shown = re.findall(r'src="data:image/jpeg;base64,([^"]+)" alt="The picture of p(\d+).png"', page)
    assert len(shown) >= 2 * RECORDS
    for data, number in shown:
        found, own = mean_colour(base64.b64decode(data)), np.asarray(picture(int(number)), dtype=float).mean((0, 1))
        assert np.abs(found - own).max() < 3, number
    assert "no picture to show" not in page
    assert (cleaned / "wrong.png").is_file()


def test_what_is_decided_is_the_same_without_pictures(made, cleaned, tmp_path):
    assert clean(made, tmp_path / "a") == 0
    assert "no picture to show" in (tmp_path / "a" / PAGE).read_text()
    assert not (tmp_path / "a" / "wrong.png").exists()
    with_pictures, without = (parquet.read_table(one / TABLE) for one in (cleaned, tmp_path / "a"))
    assert with_pictures.equals(without)


def test_copies_of_pictures_are_named_and_share_a_fold(made, tmp_path):
    """Features say nothing of these copies: hashes of the pictures do."""
    copies = {number: number + 40 for number in range(12)}
    photos = album(tmp_path / "photos", copies)
    out = tmp_path / "a"
    assert clean(made, out, photos) == 0
    page = (out / PAGE).read_text()
    assert "12 pairs of records with the same picture" in page
    assert (out / "duplicates.png").exists() is False  # `clean` names them on its page
    source = judged_data(out, json.loads((out / NOTE).read_text()))
    place = {source.pair(index).key: index for index in range(len(source))}
    parts = folds_of(WatchedSource(source), 2, 0, 32)
    fold = {number: part for part, numbers in enumerate(parts) for number in numbers}
    pairs = [(place[f"p{one:03d}.png"], place[f"p{other:03d}.png"]) for one, other in copies.items()]
    assert all(fold[one] == fold[other] for one, other in pairs)
    plain = {number: part for part, numbers in enumerate(folds(RECORDS, 2, 0)) for number in numbers}
    assert any(plain[one] != plain[other] for one, other in pairs)
    sizes = {json.loads(note.read_text())["records"] for note in out.glob("fold-*/fold.json")}
    assert sizes == {len(part) for part in parts}


def test_an_audit_shows_pictures_and_copies_too(made, tmp_path):
    photos, out = album(tmp_path / "photos", {3: 50}), tmp_path / "a"
    words = ["--pictures", str(photos), "--out", str(out)]
    assert main(["audit", "features", *settings(made / "f.npz"), *words]) == 0
    assert {"wrong.png", "duplicates.png"} <= {path.name for path in out.iterdir()}
    rows = (out / "neighbours.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows[1:3]] == ["copy", "fits"]
    assert {"p003.png", "p050.png"} == set(rows[1].split(",")[2:4])


def test_a_model_that_is_given_finds_the_copies_too(made, cleaned, tmp_path):
    judge = next(cleaned.glob("fold-1-of-2-*/checkpoints/best"))
    photos = album(tmp_path / "photos", {3: 50})
    assert clean(made, tmp_path / "a", photos, "--model", str(judge)) == 0
    assert "1 pair of records with the same picture" in (tmp_path / "a" / PAGE).read_text()


def test_who_serves_the_suspects_finds_the_pictures(cleaned):
    source = judged_data(cleaned, json.loads((cleaned / NOTE).read_text()))
    for index in (0, 5, 33):
        number = int(source.pair(index).key[1:4])
        seen = source.images([index], SIDE)[0].permute(1, 2, 0).numpy().astype(float)
        assert np.abs(seen - np.asarray(picture(number), dtype=float)).max() < 2


@pytest.mark.parametrize(
    ("features", "sentence"),
    [
        ("keyless", "the features have no 'keys'"),
        ("missing", "has no record p999.png, of which there are features"),
        ("others", "has other captions for record p"),
    ],
)
@pytest.mark.parametrize("command", ["clean", "audit"])
def test_pictures_of_other_data_are_one_sentence(made, tmp_path, capsys, command, features, sentence):
    words = ["--pictures", str(made / "photos"), "--out", str(tmp_path / "a"), "--set", "shuffle.share=0.0"]
    assert main([command, "features", *settings(made / f"{features}.npz"), *words]) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert "Traceback" not in err
    assert not list((tmp_path / "a").glob("fold-*"))


def test_pictures_belong_to_features(made, tmp_path, capsys):
    photos = str(made / "photos")
    assert main(["clean", photos, "--pictures", photos, "--out", str(tmp_path / "a")]) == 2
    assert "this data has pictures itself; leave it out" in capsys.readouterr().err
    assert clean(made, tmp_path / "a", tmp_path / "none.tar") == 2
    assert "none.tar" in capsys.readouterr().err


def test_a_picture_that_cannot_be_read_is_grey_and_no_copy(made, tmp_path):
    photos = album(tmp_path / "photos")
    source = FeatureFiles([made / "wordless.npz"])
    found = PictureData.named(str(photos)).beside(source)
    for number in (2, 9):
        (photos / f"p{number:03d}.png").write_bytes(b"none")
    places = {found.pair(index).key: index for index in range(len(found))}
    broken = [places["p002.png"], places["p009.png"]]
    watched = WatchedSource(found)
    with pytest.warns(UserWarning, match="it is shown as a grey picture"):
        assert (found.images(broken, 8) == 127).all()
    assert found.unreadable == set(broken)
    assert folds_of(watched, 2, 0, 32) == folds(RECORDS, 2, 0)
    assert watched.copies() == []


class Rows:
    """Pictures that are numbers, each with a key and captions."""

    def __init__(self, *rows: tuple[str, tuple[str, ...]]):
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def pair(self, index: int) -> Pair:
        return Pair(*self.rows[index])

    def images(self, indices, size, device="cpu") -> torch.Tensor:
        return torch.tensor([index for index in indices], dtype=torch.uint8)[:, None, None, None]


def features_of(folder: Path, keys: list[str], captions: list[str] | None) -> FeatureFiles:
    arrays = {} if captions is None else {"captions": np.array(captions)}
    vectors = np.ones((len(keys), 2), dtype=np.float32)
    np.savez(folder / "f.npz", image=vectors, text=vectors, keys=np.array(keys), **arrays)
    return FeatureFiles([folder / "f.npz"])


def test_captions_tell_records_of_one_key_apart(tmp_path):
    source = features_of(tmp_path, ["a", "a", "b", "b"], ["two", "one", "same", "same"])
    pictures = Rows(("b", ("same",)), ("a", ("one", "more")), ("b", ("same",)), ("a", ("two",)), ("c", ("x",)))
    found = PicturedFeatures(source, pictures_of(source, pictures, "rows"))
    assert found.images(range(4), 8).flatten().tolist() == [3, 1, 0, 2]
    assert found.pair(0).captions == ("two",)


def test_records_that_nothing_tells_apart_are_refused(tmp_path):
    pictures = Rows(("a", ("one",)), ("a", ("two",)))
    with pytest.raises(UserError, match="has 2 records a, and nothing tells which"):
        pictures_of(features_of(tmp_path, ["a", "a"], None), pictures, "rows")
    source = features_of(tmp_path, ["a"], ["one"])
    with pytest.raises(UserError, match="holds no pictures"):
        pictures_of(source, source, "rows")


def test_what_is_kept_of_features_is_written_as_shards_of_pictures(made, tmp_path, capsys):
    out, shards = tmp_path / "a", tmp_path / "shards"
    command = ["--set", "shuffle.share=0", "--shards", str(shards)]
    assert clean(made, out, made / "photos", *command) == 0
    table = parquet.read_table(out / TABLE).to_pylist()
    kept = {(row["key"], words_of(int(row["key"][1:4]))[row["caption"]]) for row in table if row["decision"] == "keep"}
    found = Shards(test=str(shards)).build("test")
    pairs = [found.pair(index) for index in range(len(found))]
    assert {(f"{pair.key}.png", caption) for pair in pairs for caption in pair.captions} == kept
    for index in (0, len(found) - 1):
        assert found.open(index).image.data == (made / "photos" / f"{pairs[index].key}.png").read_bytes()
    capsys.readouterr()
    assert clean(made, tmp_path / "b", None, *command) == 2
    assert "name those that features were made of: --pictures DATA" in capsys.readouterr().err
