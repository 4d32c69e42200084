"""Files of features against arrays in memory: every format and layout gives the same; every fault is a sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from equipoise.data.batches import Batches
from equipoise.data.features import FeatureFiles
from equipoise.data.preprocess import Preprocess
from equipoise.data.source import IMAGE_MASK, has_features, makes_batches
from equipoise.data.tokenizer import CaptionTokenizer, NoTokenizer
from equipoise.types import UserError

N, K, W, V = 6, 3, 5, 4
FORMATS = ("npz", "safetensors", "parquet")


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "image": rng.normal(size=(N, W)).astype(np.float32),
        "text": rng.normal(size=(N, K, V)).astype(np.float32),
        "keys": np.array([f"k{row}" for row in range(N)]),
        "captions": np.array([[f"text {place} of {row}" for place in range(K)] for row in range(N)]),
        "label": np.array(["cat", "dog"] * (N // 2)),
    }


def write(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    elif path.suffix == ".safetensors":
        words = {name: array.tolist() for name, array in arrays.items() if array.dtype.kind == "U"}
        save_file({name: torch.from_numpy(array) for name, array in arrays.items() if array.dtype.kind != "U"}, path)
        path.with_suffix(".json").write_text(json.dumps(words))
    else:
        arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: Parquet is NOT tested")
        from pyarrow import parquet

        parquet.write_table(arrow.table({name: array.tolist() for name, array in arrays.items()}), path)
    return path


def build(*files: Path) -> FeatureFiles:
    return FeatureFiles.Config(train=tuple(map(str, files))).build("train")


def features_of(source: FeatureFiles, index: int) -> torch.Tensor:
    """All text features of one image."""
    return source.text_features([index])[0]


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_the_same_pairs(tmp_path, arrays, form):
    source = build(write(tmp_path / f"some.{form}", arrays))
    assert has_features(source)
    assert makes_batches(source)
    assert (len(source), source.image_width, source.text_width) == (N, W, V)
    for row in range(N):
        pair = source.pair(row)
        assert (pair.key, pair.captions, pair.label) == (
            f"k{row}",
            tuple(arrays["captions"][row]),
            arrays["label"][row],
        )
        torch.testing.assert_close(features_of(source, row), torch.from_numpy(arrays["text"][row]), rtol=0, atol=1e-6)
    values, mask = source.image_features([4, 0, 4])
    assert mask is None
    torch.testing.assert_close(values, torch.from_numpy(arrays["image"][[4, 0, 4]]), rtol=0, atol=1e-6)


@pytest.mark.parametrize("form", FORMATS)
def test_several_files_and_a_folder_are_one_list(tmp_path, arrays, form):
    whole = build(write(tmp_path / f"whole.{form}", arrays))
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, rows in enumerate((slice(0, 2), slice(2, 3), slice(3, N))):
        write(folder / f"{number}.{form}", {name: array[rows] for name, array in arrays.items()})
    parts = build(folder)
    assert [parts.pair(row) for row in range(N)] == [whole.pair(row) for row in range(N)]
    order = [5, 2, 0, 3]
    assert torch.equal(parts.image_features(order)[0], whole.image_features(order)[0])
    for ours, theirs in zip(parts.text_features(order, 2), whole.text_features(order, 2), strict=True):
        assert ours is theirs is None or torch.equal(ours, theirs)


def test_flat_texts_find_their_images_in_any_order(tmp_path, arrays):
    owners = np.array([2, 0, 1, 2, 2, 0])
    flat = arrays["text"].reshape(-1, V)[:6]
    said = np.array([f"text {row}" for row in range(6)])
    some = {"image": arrays["image"][:3], "text": flat, "image_of_text": owners, "captions": said}
    source = build(write(tmp_path / "flat.npz", some))
    for image in range(3):
        rows = np.flatnonzero(owners == image)
        assert torch.equal(features_of(source, image), torch.from_numpy(flat[rows]))
        assert source.pair(image).captions == tuple(said[rows])
    values, _, of = source.text_features([2, 1], per_image=2)
    assert of.tolist() == [0, 0, 1]
    assert torch.equal(values, torch.from_numpy(flat[[0, 3, 2]]))


@pytest.mark.parametrize("told", ["mask", "lengths"])
def test_tokens_keep_their_masks_and_padding_is_nobodys_business(tmp_path, told):
    rng = np.random.default_rng(1)
    lengths = {"image": np.array([3, 1, 2]), "text": np.array([[2, 4], [1, 1], [4, 3]])}
    arrays = {"image": rng.normal(size=(3, 3, W)), "text": rng.normal(size=(3, 2, 4, V))}
    for name, values in list(arrays.items()):
        mask = np.arange(values.shape[-2]) < lengths[name][..., None]
        values[~mask] = np.nan  # a padded place may hold anything
        arrays[f"{name}_{told}"] = mask if told == "mask" else lengths[name]
    source = build(write(tmp_path / "tokens.npz", arrays))
    batch = source.batch([1, 2], [0.0, 0.99], NoTokenizer())
    assert batch.images.shape == (2, 2, W)  # as long as the longest of the two
    assert batch.side[IMAGE_MASK].tolist() == [[True, False], [True, True]]
    assert batch.mask.tolist() == [[True, False, False], [True, True, True]]
    np.testing.assert_allclose(batch.tokens[1].numpy(), arrays["text"][2, 1, :3], rtol=1e-6)
    assert batch.tokens[0, 1:].abs().sum() == 0
    assert batch.images.isfinite().all()


def test_one_text_of_tokens_is_told_from_several_vectors_by_its_lengths(tmp_path, arrays):
    told = {**arrays, "text_lengths": np.array([1, 2, 3, 1, 2, 3])}
    del told["captions"]
    source = build(write(tmp_path / "one.npz", told))
    values, mask, owners = source.text_features(range(N))
    assert values.shape == (N, K, V)
    assert mask.sum(1).tolist() == [1, 2, 3, 1, 2, 3]
    assert owners.tolist() == list(range(N))


def test_a_draw_picks_the_text(tmp_path, arrays):
    source = build(write(tmp_path / "some.npz", arrays))
    indices, draws = [3, 0, 5, 3], [0.0, 0.34, 0.999, 0.7]
    batch = source.batch(indices, draws, NoTokenizer())
    for row, (index, draw) in enumerate(zip(indices, draws, strict=True)):
        assert torch.equal(batch.tokens[row], torch.from_numpy(arrays["text"][index, int(draw * K)]))
        assert torch.equal(batch.images[row], torch.from_numpy(arrays["image"][index]))
    assert batch.index.tolist() == indices
    assert batch.mask.tolist() == [[True]] * 4


def test_captions_stand_in_where_there_are_no_text_features(tmp_path, arrays):
    del arrays["text"]
    source = build(write(tmp_path / "images.npz", arrays))
    tokens = CaptionTokenizer.train(
        [text for row in range(N) for text in source.pair(row).captions], CaptionTokenizer.Config(vocabulary=600)
    )
    batch = source.batch([2, 1], [0.9, 0.0], tokens)
    ids, mask = tokens(["text 2 of 2", "text 0 of 1"])
    assert source.text_width is None
    assert torch.equal(batch.tokens, ids)
    assert torch.equal(batch.mask, mask)


def test_batches_are_the_same_whoever_makes_them(tmp_path, arrays):
    source = build(write(tmp_path / "some.safetensors", arrays))

    def batches(**how):
        return Batches(source, NoTokenizer(), Preprocess(8), batch_size=4, seed=3, **how)

    alone = [batches().batch(position) for position in range(3)]
    for workers in (0, 2):
        made = batches(timeout=60).starting_at(1, workers=workers)
        for position in (1, 2):
            batch = next(made)
            assert torch.equal(batch.images, alone[position].images)
            assert torch.equal(batch.tokens, alone[position].tokens)
        made.close()
    halves = [batches(share=(part, 2)).batch(2) for part in range(2)]
    assert torch.equal(torch.cat([half.tokens for half in halves]), alone[2].tokens)


@pytest.mark.parametrize("form", FORMATS)
def test_an_array_beside_the_features_guides_training(tmp_path, arrays, form):
    things = np.eye(N, 3, dtype=np.float32)  # of the last three images nothing
    file = write(tmp_path / f"a.{form}", {**arrays, "things": things})
    config = FeatureFiles.Config(train=str(file), validation=str(file), guide="things")
    batch = config.build("train").batch([4, 1, 2], [0.0] * 3, NoTokenizer())
    assert batch.side["image_vectors"].tolist() == things[[4, 1, 2]].tolist()
    assert batch.side["has_image_vectors"].tolist() == [False, True, True]
    assert "text_vectors" not in batch.side
    assert "image_vectors" not in config.build("validation").batch([0], [0.0], NoTokenizer()).side


@pytest.mark.parametrize(
    ("things", "sentence"),
    [
        (None, "a.npz: there is no array 'things', by which data.guide compares images; add it"),
        (np.ones((N - 1, 2), np.float32), "array 'things' has the shape [5, 2]; give a vector for each image"),
        (np.ones(N, np.float32), "array 'things' has the shape [6]; give a vector for each image"),
        (np.full((N, 2), np.nan, np.float32), "array 'things' has a number that is not finite in row 0"),
    ],
)
def test_a_guide_that_will_not_do(tmp_path, arrays, things, sentence):
    file = write(tmp_path / "a.npz", arrays if things is None else {**arrays, "things": things})
    with pytest.raises(UserError, match=re.escape(sentence)):
        FeatureFiles.Config(train=str(file), guide="things").build("train")


def test_half_precision_becomes_float32(tmp_path, arrays):
    arrays["image"] = arrays["image"].astype(np.float16)
    source = build(write(tmp_path / "half.safetensors", arrays))
    assert source.image_features([0])[0].dtype == torch.float32


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_number_that_is_not_finite_is_named(tmp_path, arrays, form, bad):
    arrays["text"][4, 1, 2] = bad
    file = write(tmp_path / f"bad.{form}", arrays)
    with pytest.raises(
        UserError, match=rf"bad\.{form}: array 'text' has a number that is not finite.*row, text\) \(4, 1\)"
    ):
        build(file)
    arrays["text"][4, 1, 2] = 0
    arrays["image"][5, 0] = bad
    with pytest.raises(UserError, match=r"array 'image' has a number that is not finite in row 5"):
        build(write(tmp_path / f"bad.{form}", arrays))


def without(*names):
    return lambda arrays: [arrays.pop(name) for name in names]


def replaced(**others):
    return lambda arrays: arrays.update(others)


@pytest.mark.parametrize("form", ["npz", "parquet"])
def test_a_number_that_float32_cannot_hold_is_named(tmp_path, arrays, form):
    """Batches are float32: 1e300 would become an infinity there."""
    arrays["image"] = arrays["image"].astype(np.float64)
    arrays["image"][2, 1] = 1e300
    with pytest.raises(UserError, match="'image' has a number that is not finite in row 2"):
        FeatureFiles([write(tmp_path / f"f.{form}", arrays)])


@pytest.mark.parametrize(("name", "odd"), [("captions", 3), ("captions", [3]), ("keys", None), ("label", [["x"]])])
def test_words_of_another_kind_are_named(tmp_path, arrays, name, odd):
    path = write(tmp_path / "f.safetensors", arrays)
    words = json.loads(path.with_suffix(".json").read_text())
    words[name][1] = odd
    path.with_suffix(".json").write_text(json.dumps(words))
    with pytest.raises(UserError, match=f"'{name}' of row 1"):
        FeatureFiles([path])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (without("image"), "no array 'image'"),
        (without("text", "captions"), "neither an array 'text' nor 'captions'"),
        (replaced(image=np.zeros((N, W), dtype=np.int32)), "holds torch.int32 numbers"),
        (replaced(image=np.zeros(N, dtype=np.float32)), r"has the shape \[6\]"),
        (replaced(image=np.zeros((0, W), dtype=np.float32)), r"has the shape \[0, 5\]"),
        (replaced(image=np.zeros((N - 1, W), dtype=np.float32)), "6 rows for 5 images"),
        (replaced(text=np.zeros((N, 2, 2, 2, V), dtype=np.float32)), "not that of texts"),
        (replaced(captions=np.array([["one"]] * N)), "18 texts but 6 captions"),
        (replaced(keys=np.array(["a"])), "'keys' has 1 entries for 6 images"),
        (replaced(image_of_text=np.array([0, 9])), "'image_of_text' must be a list of rows from 0 to 5"),
        (replaced(image_of_text=np.array([0.5])), "'image_of_text' must be a list of rows"),
        (replaced(text_lengths=np.array([1] * 5)), "'text_lengths' does not fit 'text'"),
        (replaced(text_lengths=np.array([1] * 5 + [9]), captions=np.array(["a"] * N)), "does not fit 'text'"),
        (replaced(text_lengths=np.array([1] * 5 + [0]), captions=np.array(["a"] * N)), "row 5 of 'text' has no token"),
    ],
)
def test_faults_are_sentences(tmp_path, arrays, change, sentence):
    change(arrays)
    file = write(tmp_path / "file.npz", arrays)
    with pytest.raises(UserError, match=sentence) as caught:
        build(file)
    assert "file.npz" in str(caught.value)


def test_an_image_without_text_is_named(tmp_path, arrays):
    some = {"image": arrays["image"], "text": arrays["text"][:, 0], "image_of_text": np.array([0, 1, 2, 3, 5, 5])}
    with pytest.raises(UserError, match=r"image 4 has no text"):
        build(write(tmp_path / "some.npz", some))


def test_files_of_one_split_must_agree(tmp_path, arrays):
    first = write(tmp_path / "a.npz", arrays)
    second = write(tmp_path / "b.npz", {**arrays, "image": np.zeros((N, W + 1), dtype=np.float32)})
    with pytest.raises(UserError, match=r"b\.npz: array 'image' has the shape \[6, 6\].*\[6, 5\]"):
        build(first, second)
    with pytest.raises(UserError, match=r"b\.npz: there is no array 'text'"):
        build(first, write(tmp_path / "b.npz", {name: array for name, array in arrays.items() if name != "text"}))


def test_paths_that_lead_nowhere(tmp_path, arrays):
    for path, sentence in (("none.npz", "no such file"), ("x.pt", "are read from"), ("", "holds no")):
        with pytest.raises(UserError, match=sentence):
            build(tmp_path / path)
    with pytest.raises(UserError, match=r"data\.train is empty"):
        FeatureFiles.Config().build("train")
    with pytest.raises(UserError, match="no split"):
        FeatureFiles.Config(train="x").build("dev")
    file = write(tmp_path / "some.npz", arrays)
    with pytest.warns(UserWarning, match=r"data\.test is not given"):
        assert len(FeatureFiles.Config(validation=str(file)).build("test")) == N


def test_pictures_cannot_be_had(tmp_path, arrays):
    with pytest.raises(UserError, match=r"some\.npz holds features"):
        build(write(tmp_path / "some.npz", arrays)).images([0], 8)


def test_python_objects_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "evil.npz", image=np.array([{"a": 1}], dtype=object))
    with pytest.raises(UserError, match=r"evil\.npz: this file cannot be read"):
        build(tmp_path / "evil.npz")


@pytest.mark.parametrize("form", FORMATS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_broken_files_give_sentences_only(tmp_path, arrays, form, data):
    file = write(tmp_path / f"good.{form}", arrays)
    content = bytearray(file.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4)):
        content[place] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(content)))
    broken = tmp_path / f"broken.{form}"
    broken.write_bytes(content[:cut])
    try:
        source = build(broken)
    except UserError as error:
        assert "broken" in str(error)  # noqa: PT017 (either outcome is right)
    else:
        source.batch(range(len(source)), [0.5] * len(source), NoTokenizer())


@pytest.mark.parametrize("column", [[[1.0], [1.0, 2.0]], [[1.0], None], [[1.0], [None]]])
def test_ragged_and_missing_rows_of_parquet(tmp_path, column):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: Parquet is NOT tested")
    from pyarrow import parquet

    parquet.write_table(arrow.table({"image": column, "text": [[1.0], [2.0]]}), tmp_path / "x.parquet")
    with pytest.raises(UserError, match=r"x\.parquet: column 'image' has (rows of different lengths|1 missing)"):
        build(tmp_path / "x.parquet")


def test_texts_of_parquet_are_counted(tmp_path):
    """As many as each image has, read like arrays with image_of_text; other counts are a sentence."""
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: Parquet is NOT tested")
    from pyarrow import parquet

    columns = {"image": [[1.0, 0.0], [0.0, 1.0]], "text": [[[1.0], [2.0]], [[3.0]]], "captions": [["a", "b"], ["c"]]}
    path = tmp_path / "x.parquet"
    parquet.write_table(arrow.table({**columns, "text_count": [2, 1]}), path)
    source = build(path)
    values, _, owners = source.text_features([1, 0])
    assert values.tolist() == [[3.0], [1.0], [2.0]]
    assert owners.tolist() == [0, 1, 1]
    assert source.pair(0).captions == ("a", "b")
    for counts in ([1, 2], [2, 2]):
        parquet.write_table(arrow.table({**columns, "text_count": counts}), path)
        with pytest.raises(UserError, match=r"'(text|captions)' must be lists of as many texts as 'text_count' says"):
            build(path)
    parquet.write_table(arrow.table(columns), path)
    with pytest.raises(UserError, match=r"different lengths.*'text_count'"):
        build(path)
