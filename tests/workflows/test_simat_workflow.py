"""`equipoise simat` as a person meets it: scenes, the same from SIMAT's files, features; one sentence for a mistake."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image

from equipoise.cli import main
from equipoise.config import load_run
from equipoise.data.scenes.simat_questions import SimatSettings, scene_transformations
from equipoise.evaluation.simat.data import SimatFiles, encode_task, file_task
from equipoise.evaluation.simat.score import answer
from equipoise.evaluation.simat.sweep import simat
from equipoise.types import UserError
from equipoise.workflows import build_model, load

FEW = ("--sources", "8")


def mistake(capsys, *words: object) -> str:
    """The one sentence of a call that fails."""
    capsys.readouterr()
    assert main(["simat", *map(str, words)]) == 2
    return capsys.readouterr().err.splitlines()[-1].removeprefix("equipoise: ")


@pytest.fixture(scope="module")
def scored(finished_run, tmp_path_factory):
    """The folder of one call, and the scenes it wrote in SIMAT's files."""
    folder = tmp_path_factory.mktemp("simat")
    words = ["simat", finished_run, *FEW, "--out", folder / "out", "--write", folder / "files"]
    assert main([*map(str, words)]) == 0
    return folder


def record_of(folder) -> dict:
    return json.loads((folder / "simat.json").read_text())


def test_scenes_are_transformed(scored, finished_run, tiny):
    record = record_of(scored / "out")
    model = load(finished_run)
    asked, gallery = scene_transformations(tiny.run.data, SimatSettings(8))
    assert record["numbers"] == pytest.approx(simat(model, asked, gallery, batch_size=7), abs=1e-6)
    assert record["oracle"] == "the truth of scenes"
    assert record["database"] == len(gallery)
    assert record["finding"].startswith("SIMAT on test is ")
    found = json.loads((scored / "out" / "found.json").read_text())
    assert [one["transfo_id"] for one in found] == [one.number for one in asked.of("test")]
    weights = [one.alike**-0.5 for one in asked.of("test")]
    right = sum(w for w, one in zip(weights, found, strict=True) if one["right"])
    assert record["numbers"]["simat"] == pytest.approx(100 * right / sum(weights))
    for name in ("simat", "simat-examples"):
        with Image.open(scored / "out" / f"{name}.png") as picture:
            assert min(picture.size) > 300
            assert len(set(picture.convert("L").resize((64, 64)).getdata())) > 8


def test_points_are_added_as_the_vectors_they_are(finished_run, tiny):
    """The query by hand, from the model's own points."""
    model = load(finished_run)
    asked, gallery = scene_transformations(tiny.run.data, SimatSettings(4))
    pictures = model.encode_image(gallery.images(range(len(gallery)), model.preprocess.size)).double()
    words = {word: model.encode_text([word])[0].double() for word in asked.words}
    found = answer(pictures, words, asked.asked, asked.oracle, [2.0])[0].found.tolist()
    for one, place in zip(asked.asked, found, strict=True):
        query = pictures[one.source] + 2 * (words[one.target] - words[one.value])
        closeness = pictures @ query
        closeness[one.source] = -torch.inf
        assert float(closeness[place]) == pytest.approx(float(closeness.max()))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["images", "crops", "features"])
def test_files_score_the_same_as_memory(scored, finished_run, tmp_path, kind):
    files = scored / "files"
    pictures = files / "images"
    if kind == "features":
        pictures = tmp_path / "features"
        assert main(["embed", str(finished_run), str(files), "--out", str(pictures)]) == 0
    words = ["--files", files, f"--{kind}", pictures, "--out", tmp_path / "out"]
    assert main(["simat", str(finished_run), *map(str, words)]) == 0
    read, made = record_of(tmp_path / "out"), record_of(scored / "out")
    assert read["numbers"] == pytest.approx(made["numbers"], abs=1e-9)
    assert read["test"] == made["test"]
    assert (tmp_path / "out" / "simat-examples.png").exists() == (kind != "features")
    assert read["oracle"] == "oracle.npy"


def test_one_split_and_some_lambdas(finished_run, tmp_path, capsys):
    call = ("simat", str(finished_run), *FEW, "--lambdas", "0", "1")
    for split in ("dev", "test"):
        assert main([*call, "--split", split, "--out", str(tmp_path / split)]) == 0
    dev, test = (record_of(tmp_path / split) for split in ("dev", "test"))
    assert [one["lambda"] for one in dev["dev"]["by_lambda"]] == [0, 1]
    assert "test" not in dev
    assert "simat" not in test["numbers"]  # nothing to choose λ on
    assert "without dev no λ can be chosen" in test["finding"]
    assert dev["numbers"]["simat_dev_max"] == max(one["all"]["score"] for one in dev["dev"]["by_lambda"])
    assert not (tmp_path / "test" / "found.json").exists()


def test_mistakes(scored, finished_run, tmp_path, capsys):
    out = ("--out", tmp_path / "out")
    call, files = (finished_run, *FEW, *out), scored / "files"
    assert mistake(capsys, *call, "--lambdas", "-1") == "λ is -1; give numbers from 0 up"
    assert "belong to --files FOLDER" in mistake(capsys, *call, "--crops", "x")
    assert "--files has 0 kinds of pictures" in mistake(capsys, *call, "--files", files)
    assert "--files has 2 kinds" in mistake(capsys, *call, "--files", files, "--crops", "x", "--images", "y")
    both = ("--files", files, "--images", files / "images")
    assert "files already" in mistake(capsys, *call, *both, "--write", tmp_path / "w")
    assert "is there already" in mistake(capsys, *call, "--write", files)
    assert 'replaces a shape; "exact"' in mistake(capsys, *call, *both, "--oracle", "exact")
    assert "there is no such file" in mistake(capsys, *call, *both, "--oracle", tmp_path / "none.npy")
    (tmp_path / "pictures" / "a").mkdir(parents=True)
    Image.new("RGB", (20, 20)).save(tmp_path / "pictures" / "a" / "1.png")
    assert "this data is no scenes" in mistake(capsys, finished_run, tmp_path / "pictures", *out)
    assert "has no picture 0.jpg" in mistake(capsys, *call, "--files", files, "--crops", tmp_path / "pictures")
    assert "sources is 0" in mistake(capsys, finished_run, "--sources", "0", *out)
    assert not (tmp_path / "out").exists()


def test_pictures_of_another_database_are_refused(finished_run, tiny):
    asked, gallery = scene_transformations(tiny.run.data, SimatSettings(4))
    _, other = scene_transformations(tiny.run.data, SimatSettings(5))
    with pytest.raises(UserError, match=f"the database has {len(gallery)} pictures"):
        simat(load(finished_run), asked, other)


def test_a_model_of_features_reads_features(scored, tiny_settings, tokens, tmp_path):
    run = load_run("demo", [*tiny_settings, 'image={name = "precomputed", width = 12}']).run
    model, files = build_model(run, tokens), scored / "files"
    count = len(list((files / "images").iterdir()))
    features = torch.randn(count, 12, generator=torch.Generator().manual_seed(0))
    keys = [f"images/{number}.png" for number in reversed(range(count))]
    np.savez(tmp_path / "features.npz", image=features.numpy(), keys=keys, captions=keys)
    here = SimatFiles(files, features=tmp_path / "features.npz")
    asked = file_task(here)
    assert not asked.can_be_seen
    assert torch.equal(encode_task(model, asked).pictures, model.encode_image(features.flip(0)))
    np.savez(tmp_path / "features.npz", image=features[:, :5].numpy(), keys=keys, captions=keys)
    with pytest.raises(UserError, match="the features are 5 wide"):
        encode_task(model, file_task(here))
    np.savez(tmp_path / "features.npz", image=features[1:].numpy(), keys=keys[1:], captions=keys[1:])
    with pytest.raises(UserError, match=f"has no features with the key {count - 1}"):
        file_task(here)
