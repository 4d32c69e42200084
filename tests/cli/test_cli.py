"""The command line as a person meets it: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import webdataset
from PIL import Image

from equipoise.cli import main
from equipoise.config import builtin_recipes, load_run
from equipoise.training.logging.metrics import read_metrics


@dataclass(frozen=True)
class Reply:
    code: int
    out: str
    err: str

    @property
    def mistake(self) -> str:
        """The one sentence of a call that failed."""
        assert (self.code, self.out) == (2, "")
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1, self.err
        assert self.err.startswith("equipoise: ")
        return self.err.removeprefix("equipoise: ").rstrip("\n")


Call = Callable[..., Reply]


@pytest.fixture
def equipoise(capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls the command line in this process."""

    def call(*words: object, sets: tuple[str, ...] = ()) -> Reply:
        capsys.readouterr()
        try:
            code = main([*map(str, words), *(word for text in sets for word in ("--set", text))])
        except SystemExit as end:
            code = int(end.code or 0)
        return Reply(code, *capsys.readouterr())

    return call


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "the following arguments are required: COMMAND; see equipoise --help"),
        (("trian", "demo"), 'there is no command "trian"; did you mean train?'),
        (("train",), "nothing to train: give a recipe or files, or --resume FOLDER"),
        (("train", "demo", "--steps", "3"), "--steps is not understood; did you mean --set?"),
        (("train", "dmeo"), 'there is no recipe "dmeo", and no such file or folder; give a path, or one of: demo, '),
        (("train", "my/recipe.toml"), "my/recipe.toml: there is no such file; check the path"),
        (("data", "check", ""), "DATA is an empty word; give shards (.tar), a table"),
        (("show", "demo", "--set", "seed"), "--set seed: this is not of the form key=value"),
        (("show", "demo", "--set", "trainig.steps=3"), '--set trainig.steps: unknown key "trainig"; did you mean '),
        (("show", "demo", "--set", "training.batch_size=1"), "--set training.batch_size: training: batch_size 1"),
        (("show", "demo", "--set", "name=a/b"), "--set name: name is 'a/b'; a run's folder is called so"),
        (("show", "demo", "--set", "seed=-1"), "--set seed: seed is -1; choose a whole number from 0"),
        (("show", "demo", "--set", "image.heads=0"), "--set image.heads: image: heads must be larger than 0, not 0"),
        (("train", "demo", "--set", "image.heads=5"), "width 64 cannot be split into 5 heads"),
        (("eval", "nowhere"), "no model in nowhere (there is no such folder): a model folder holds"),
        (("eval", "/"), "no model in /: a model folder holds model.safetensors and config.toml"),
        (("scenes", "preview", "--count", "0"), "a contact sheet needs at least 1 scene and 1 pixel, not --count 0"),
        (("scenes", "preview", "--size", "-4"), "a contact sheet needs at least 1 scene and 1 pixel"),
        (("scenes", "preview", "--count", "many"), "argument --count: invalid int value: 'many'"),
        (("scenes", "write", "shards", "--per-shard", "0"), "shards need at least 1 record and 1 pixel"),
        (("train", "demo", "--out", "/dev/null"), "cannot write /dev/null/.lock: "),
        (("scenes", "preview", "--count", "1", "--out", "/proc/nowhere/a.png"), "cannot write /proc/nowhere/a.png: "),
    ],
)
def test_a_mistake_is_one_sentence(
    equipoise: Call, words: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small = ("data.train_size=300", "training.steps=1") if words[:1] == ("train",) else ()
    assert equipoise(*words, sets=small).mistake.startswith(sentence)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_wrong_key_is_found_in_its_file(equipoise: Call, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text('extends = "demo"\n\n[training]\nlearning_rat = 1e-3\n')
    expected = f'{recipe}:4: unknown key "training.learning_rat"; did you mean "learning_rate"?'
    for command in ("train", "show", "cite"):
        assert equipoise(command, recipe).mistake == expected


def test_show_prints_a_recipe_that_gives_the_same_run(equipoise: Call, tmp_path: Path) -> None:
    reply = equipoise("show", "clip-scenes-noisy", "--set", "seed=7")
    (tmp_path / "again.toml").write_text(reply.out)
    assert load_run(tmp_path / "again.toml") == load_run("clip-scenes-noisy", ["seed=7"])
    assert equipoise("show", tmp_path / "again.toml").out == reply.out
    assert (reply.code, reply.err) == (0, "")


def test_cite_prints_bibtex_and_recipes_lists_all(equipoise: Call) -> None:
    cited = equipoise("cite", "demo")
    assert cited.code == 0
    assert "@" in cited.out.lstrip()[:1]
    assert "{radford2021clip," in cited.out
    assert cited.out.count("{") == cited.out.count("}")
    listed = [line.split()[0] for line in equipoise("recipes").out.splitlines() if line.startswith("  ")]
    assert sorted(listed) == sorted(builtin_recipes())


def test_preview_writes_a_picture(equipoise: Call, tmp_path: Path) -> None:
    reply = equipoise("scenes", "preview", "--count", 5, "--size", 48, "--out", tmp_path / "sheet.png")
    assert reply == Reply(0, f"5 pictures with their captions are in {tmp_path / 'sheet.png'}\n", "")
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.format == "PNG"
        assert sheet.width > 1000
        assert len(sheet.getcolors(1 << 24) or ()) > 100


def test_write_writes_shards_that_webdataset_reads(equipoise: Call, tmp_path: Path) -> None:
    words = ("scenes", "write", tmp_path / "shards", "--split", "test", "--per-shard", 4, "--size", 24)
    reply = equipoise(*words, sets=("data.test_size=10",))
    assert (reply.code, reply.out) == (0, f"10 pairs are in 3 shards in {tmp_path / 'shards'}\n")
    urls = [str(path) for path in sorted((tmp_path / "shards").glob("*.tar"))]
    samples = list(webdataset.WebDataset(urls, shardshuffle=False).decode("rgb8"))
    scenes = load_run("demo", ["data.test_size=10"]).run.data.build("test")
    assert [sample["txt"].splitlines() for sample in samples] == [list(scenes.pair(k).captions) for k in range(10)]
    assert all(sample["jpg"].shape == (24, 24, 3) for sample in samples)


def test_train_then_eval(equipoise: Call, tmp_path: Path, tiny_settings: tuple[str, ...]) -> None:
    folder = tmp_path / "my run"
    reply = equipoise("train", "demo", "--out", folder, sets=tiny_settings)
    assert reply.code == 0
    assert reply.out.splitlines()[-1] == f"The report is {folder / 'report.html'}; the model is {folder}"
    assert "chance" in reply.out
    assert reply.err.splitlines()[0].startswith("training 1/2  loss ")
    first, second = (record["loss"] for record in read_metrics(folder / "metrics.jsonl") if "loss" in record)
    shown = next(line for line in reply.err.splitlines() if line.startswith("training 2/2"))
    assert float(shown.split()[3]) == pytest.approx((first + second) / 2, abs=6e-4)  # the mean, so that it is steady
    assert f"equipoise train demo --out &#39;{folder}&#39; --set data.train_size=64" in (
        folder / "report.html"
    ).read_text(encoding="utf-8")
    again = equipoise("train", "demo", "--out", folder, sets=tiny_settings)
    assert (
        again.mistake == f"{folder} already holds a run; go on with it by --resume, or choose another folder with --out"
    )

    own = equipoise("eval", folder, "--out", tmp_path / "own")
    assert (own.code, own.err) == (0, "")
    assert [line for line in own.out.splitlines() if "%" in line] == [
        line for line in reply.out.splitlines() if "%" in line
    ]
    other = equipoise("eval", folder, "clip-scenes", sets=("data.shift=hue", "data.test_size=9"))
    assert other.code == 0
    assert not (tmp_path / "results").exists()
    written = json.loads((tmp_path / "own" / "results" / "zero_shot.json").read_text())
    assert written["task"] == "zeroshot_classification"
    assert set(written) == {"dataset", "model", "pretrained", "task", "metrics", "language", "equipoise"}


@pytest.mark.slow
def test_long_captions_are_warned_of_in_one_line_and_counted(
    equipoise: Call, tmp_path: Path, tiny_settings: tuple[str, ...]
) -> None:
    reply = equipoise("train", "demo", "--out", tmp_path / "run", sets=(*tiny_settings, "tokens.context=8"))
    assert reply.code == 0
    warned = [line for line in reply.err.splitlines() if "warning" in line]
    assert len(warned) == 1
    assert warned[0].startswith("equipoise: warning: The caption of train-00000")
    assert "but the context is 8; its end is cut off" in warned[0]
    assert "UserWarning" not in reply.err
    report = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "were longer than 8 tokens and cut" in report
    assert " 0 were longer than 8 tokens" not in report


def test_ctrl_c_elsewhere_is_one_sentence_too(equipoise: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("equipoise.config.load_run", interrupted)
    assert equipoise("show", "demo") == Reply(130, "", "equipoise: stopped\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere; /proc and /dev/null stand in above")
def test_a_read_only_folder_is_one_sentence(equipoise: Call, tmp_path: Path, tiny_settings: tuple[str, ...]) -> None:
    tmp_path.chmod(0o500)
    reply = equipoise("train", "demo", "--out", tmp_path / "run", sets=tiny_settings)
    tmp_path.chmod(0o700)
    assert "Permission denied; free some space or choose another folder with --out" in reply.mistake


def test_a_loss_that_breaks_is_one_sentence(equipoise: Call, tmp_path: Path, tiny_settings: tuple[str, ...]) -> None:
    far = ("training.learning_rate=1e20", "training.warmup_steps=0", "training.log_every=2")
    reply = equipoise("train", "demo", "--out", tmp_path / "run", sets=(*tiny_settings, *far))
    assert reply.mistake.startswith(
        "the loss became nan (points of the model are NaN or infinite) at step 2, so training stopped;"
    )
