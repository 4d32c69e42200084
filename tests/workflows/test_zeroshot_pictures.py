"""`equipoise zeroshot`: classes by name, pictures by file, folder, pattern, shard; accuracy of class folders."""

from __future__ import annotations

import io
import json
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import torch
from PIL import Image

import equipoise as eq
from equipoise.cli import main
from equipoise.data.scenes import Scenes
from equipoise.data.shard_writer import write_shards
from equipoise.workflows.zeroshot import ZeroShotRequest, classify_pictures

CLASSES = ("star", "fish", "house")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures: flat/*.png, and classes/{Star,fish,a_house}/*.png, as one-coloured squares."""
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(6):
        picture = Image.new("RGB", (40, 30 + number), (40 * number, 255 - 40 * number, 90))
        for name in (f"flat/{number}.png", f"classes/{('Star', 'fish', 'house')[number % 3]}/{number}.png"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            picture.save(folder / name)
    return folder


def reply(*words: object) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["zeroshot", *map(str, words)])
    return code, out.getvalue(), err.getvalue()


def test_the_closest_class_by_hand(finished_run: Path, data: Path) -> None:
    """Mean similarity over templates and softmax at the model's scale, one picture at a time."""
    templates = ("a picture of a {}", "one {}")
    found = classify_pictures(
        finished_run, [str(data / "flat")], ZeroShotRequest(",".join(CLASSES), templates, top=3), (), None
    )
    model = eq.load(finished_run)
    for one in found["pictures"]:
        u = model.encode_image(one["picture"])
        scores = torch.stack(
            [model.similarity(u, model.encode_text([t.format(name) for t in templates])).mean() for name in CLASSES]
        )
        shares = (model.log_scale.exp() * scores).softmax(0)
        order = scores.argsort(descending=True).tolist()
        assert [guess["class"] for guess in one["classes"]] == [CLASSES[place] for place in order]
        for guess, place in zip(one["classes"], order, strict=True):
            assert guess["probability"] == pytest.approx(float(shares[place]), rel=1e-4)
            assert guess["similarity"] == pytest.approx(float(scores[place]), abs=1e-5)
    assert "metrics" not in found


def test_files_folders_and_patterns_are_the_same_pictures(finished_run: Path, data: Path) -> None:
    flat = data / "flat"
    ways = ([flat], [f"{flat}/*.png"], sorted(flat.iterdir()))
    found = [json.loads(reply(finished_run, *way, "--classes", "a,b", "--json")[1])["pictures"] for way in ways]
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 6


def test_a_folder_of_pictures_holds_those_in_folders_within(finished_run: Path, data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / "flat", tmp_path / "photos")
    shutil.copytree(data / "classes" / "fish", tmp_path / "photos" / "more")
    (tmp_path / "photos" / "0.txt").write_text("a caption, which nobody needs here")
    found = json.loads(reply(finished_run, tmp_path / "photos", "--classes", "a,b", "--json")[1])["pictures"]
    assert len(found) == 6 + 2
    assert {str(Path(one["picture"]).relative_to(tmp_path)) for one in found} >= {"photos/0.png", "photos/more/1.png"}


def test_class_folders_give_accuracy_by_their_own_names_or_by_those_given(finished_run: Path, data: Path) -> None:
    own = json.loads(reply(finished_run, data / "classes", "--json")[1])
    assert sorted(own["classes"]) == ["Star", "fish", "house"]
    right = [one["label"] == one["classes"][0]["class"] for one in own["pictures"]]
    assert own["metrics"]["acc1"] == pytest.approx(sum(right) / 6)
    assert own["chance"]["acc1"] == pytest.approx(1 / 3)
    given = json.loads(reply(finished_run, data / "classes", "--classes", "STAR,Fish", "--json")[1])
    assert (given["judged"], given["of_other_classes"]) == (4, 2)
    code, out, _ = reply(finished_run, data / "classes", "--classes", "STAR,Fish")
    assert code == 0
    assert "accuracy" in out
    assert "not counted" in out


def test_classes_from_a_file_and_pictures_from_shards(finished_run: Path, scenes: Scenes, tmp_path: Path) -> None:
    write_shards(scenes, tmp_path / "shards", 32, 32, lambda *_: None)
    names = tmp_path / "names.txt"
    names.write_text("star\nfish\n\n")
    code, out, _ = reply(finished_run, tmp_path / "shards", "--classes", names, "--out", tmp_path / "out")
    assert code == 0
    assert "more pictures" in out
    written = json.loads((tmp_path / "out" / "zeroshot.json").read_text())
    assert written["classes"] == ["star", "fish"]
    assert len(written["pictures"]) == len(scenes)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("flat",), "--classes a,b,c"),
        (("flat", "--classes", "nams.txt"), "did you mean names.txt?"),
        (("flat", "--classes", "star"), "two at least"),
        (("flat", "--classes", "star,star"), "twice"),
        (("flat", "--classes", "a,b", "--template", "a photo"), "{}"),
        (("flat", "--classes", f"a,{'very ' * 300}long"), "long"),
        (("flat", "--classes", "a,b", "--top", "0"), "--top"),
        (("flot/1.png", "--classes", "a,b"), "did you mean flat/1.png?"),
        (("empty", "--classes", "a,b"), "nothing in this folder"),
        (("broken.png", "--classes", "a,b"), "broken.png"),
    ],
)
def test_a_mistake_is_one_sentence(
    finished_run: Path, data: Path, words: tuple[str, ...], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    (data / "empty").mkdir(exist_ok=True)
    (data / "names.txt").write_text("star\nfish\n")
    (data / "broken.png").write_bytes(b"no picture")
    code, out, err = reply(finished_run, *words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.splitlines()[-1].startswith("equipoise: ")


def test_a_picture_that_cannot_be_read_is_named_and_left_out(finished_run: Path, data: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no picture")
    code, out, err = reply(finished_run, broken, data / "flat" / "1.png", "--classes", "a,b", "--json")
    assert code == 0
    assert str(broken) in err
    assert len(json.loads(out)["pictures"]) == 1
