"""Files wherever a recipe is taken: what is guessed, sizes that follow, and what is left behind."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from captioned_pictures import write_captioned
from class_pictures import write_class_folders

from equipoise.cli import main
from equipoise.config import load_stored
from equipoise.data.rng import keyed_int
from equipoise.finetuning.comparison import DidNotHelp
from equipoise.types import Notice, UserError
from equipoise.workflows import finetune
from equipoise.workflows.own_files import name_of, own_run
from equipoise.workflows.shift import shift_model
from equipoise.workflows.sizes import largest_batch, validation_share

TINY = (
    "preprocess.size=16", "tokens.vocabulary=600", "tokens.context=16", "image.width=16", "image.layers=1",
    "image.patch=8", "text.width=16", "text.layers=1", "space.dim=16", "training.device=cpu",
)  # fmt: skip
WORDS = [word for setting in TINY for word in ("--set", setting)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_captioned(tmp_path_factory.mktemp("captioned"))
    write_class_folders(folder / "classes")
    return folder


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("own") / "run"
    assert main(["train", str(data / "pairs.csv"), "--out", str(out), "--epochs", "2", *WORDS]) == 0
    return out


def test_a_table_with_a_row_per_caption_trains_and_is_divided_by_pictures(run: Path) -> None:
    stored = load_stored(run / "config.toml").run
    assert (stored.name, stored.data.path, stored.data.captions) == ("pairs", "image", "caption")
    assert stored.data.validation_share == 0.2
    with pytest.warns(UserWarning, match="held out"):
        samples = len(stored.data.build("train"))
    assert samples + len(stored.data.build("validation")) == 48
    assert stored.training.batch_size == largest_batch(samples) == 8
    assert stored.training.steps == 2 * (samples // 8)


@pytest.mark.parametrize("name", ["pairs.csv", "pairs.jsonl", "coco.json", "classes"])
def test_eval_reads_all_of_the_files(name: str, data: Path, run: Path, tmp_path: Path, capsys) -> None:
    assert main(["eval", str(run), str(data / name), "--out", str(tmp_path)]) == 0
    said = capsys.readouterr()
    if name == "classes":
        assert {path.stem for path in (tmp_path / "results").iterdir()} == {"zero_shot", "consistency"}
        return
    assert 'pictures in the column "' in said.err
    found = json.loads((tmp_path / "results" / "retrieval.json").read_text())["metrics"]
    assert (found["image_to_text_queries"], found["text_to_image_queries"]) == (48.0, 96.0)


def test_a_table_and_its_other_forms_are_the_same_data(data: Path) -> None:
    with pytest.warns(Notice):
        table, lines = (own_run(str(data / name), "files", (), "whole", trains=False) for name in
                        ("pairs.csv", "pairs.jsonl"))  # fmt: skip
    a, b = (loaded.run.data.build("test") for loaded in (table, lines))
    assert [a.pair(index) for index in range(48)] == [b.pair(index) for index in range(48)]


@pytest.mark.slow
def test_fine_tuning_and_shifting_on_files(data: Path, run: Path, tmp_path: Path) -> None:
    with suppress(DidNotHelp), pytest.warns(Notice, match=r"batches of 8, \d+ steps \(1 epochs\)"):
        finetune(run, str(data / "coco.json"), "ft", ["training.device=cpu"], tmp_path / "tuned", epochs=1)
    stored = load_stored(tmp_path / "tuned" / "config.toml").run
    assert (stored.data.path, stored.data.images) == ("file_name", str(data / "images"))
    with pytest.warns(UserWarning, match="held out"):
        assert shift_model(run, str(data / "pairs.jsonl"), (), tmp_path / "shifted").pairs < 48


def test_class_folders_match_by_class(data: Path) -> None:
    with pytest.warns(Notice):
        loaded = own_run(str(data / "classes"), "files", (), "divided", sized=True)
    assert (loaded.run.training.best, loaded.table["objective"]["target"]["name"]) == ("acc1", "labels")
    with pytest.warns(Notice):
        plain = own_run(str(data / "pairs.csv"), "files", (), "divided", sized=True)
    assert (plain.run.training.best, plain.table["objective"]["target"]["name"]) == ("mean_recall", "one_hot")


def test_what_is_named_is_left_as_it_is(data: Path) -> None:
    words = ["training.steps=7", "training.log_every=3", "data.validation_share=0.5", "data.captions=caption"]
    with pytest.warns(Notice):
        found = own_run(str(data / "pairs.csv"), "files", words, "divided", sized=True).run
    assert (found.training.steps, found.training.log_every, found.data.validation_share) == (7, 3, 0.5)
    assert found.training.evaluate_every == 1
    with pytest.warns(Notice, match="batches of 8"):  # larger than the data: made smaller all the same
        found = own_run(str(data / "pairs.csv"), "files", ["training.batch_size=1000"], "divided", sized=True).run
    assert found.training.batch_size == 8
    with pytest.warns(Notice):
        found = own_run(str(data / "pairs.csv"), "files", ["training.batch_size=16", "training.epochs=3"], "divided",
                        sized=True).run  # fmt: skip
    assert (found.training.batch_size, found.training.steps) == (16, 6)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["train", "{}/images"], "these pictures have no captions"),
        (["eval", "{run}", "{}/images"], "these pictures have no captions"),
        (["train", "{}/pairs.csv", "--epochs", "2", "--set", "training.steps=3"], "say the same"),
        (["train", "{}/pairs.csv", "--epochs", "-1"], "--epochs is -1"),
        (["train", "{}/pairs.csv", "--set", "data.captions=nothing"], 'no column "nothing"'),
        (["train", "demo", "--recipe", "flickr8k"], "leave out one of them"),
        (["eval", "{run}", "{}/pairs.csv", "--split", "train"], "files are evaluated whole"),
        (["finetune", "{run}", "{}/images"], "these pictures have no captions"),
        (["shift", "{run}", "{}/none.csv"], "no such file"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_no_folder(
    words: list[str], fault: str, data: Path, run: Path, tmp_path: Path, capsys
) -> None:
    out = tmp_path / "out"
    spelled = [word.replace("{run}", str(run)).replace("{}", str(data)) for word in words]
    assert main([*spelled, *(["--out", str(out)] if words[0] != "eval" else [])]) == 2
    said = capsys.readouterr().err
    assert fault in said.splitlines()[-1]
    assert "Traceback" not in said
    assert not out.exists()


def test_a_first_try_that_failed_does_not_refuse_the_second(data: Path, tmp_path: Path, capsys) -> None:
    """The second picture cannot be read, which shows when the run has begun."""
    table = tmp_path / "pairs.csv"
    (tmp_path / "bad.png").write_bytes(b"no picture")
    rows = "\n".join(f"{data}/images/{number:02d}.png,picture {number}" for number in range(20))
    table.write_text(f"image,caption\n{rows}\n")
    words = ["train", str(table), "--out", str(tmp_path / "run"), "--epochs", "1", *WORDS]
    bad = "".join(f"{tmp_path}/bad.png,bad {number}\n" for number in range(3))
    (tmp_path / "bad.csv").write_text(f"image,caption\n{rows}\n{bad}")
    failing = [*words, "--set", f"data.train={tmp_path}/bad.csv", "--set", "data.max_bad=0", "--set",
               f"data.validation={table}", "--set", "data.join=none"]  # fmt: skip
    assert main(failing) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert main(words) == 0


def test_a_handful_of_pairs_is_divided_too_and_said_to_be_few(data: Path, tmp_path: Path, capsys) -> None:
    """By chance none of these keys is below a fifth; such a table was refused as without a usable record."""
    names = [f"{number:02d}.png" for number in range(48) if keyed_int(f"{number:02d}.png") >= 0.2 * 2**64][:6]
    rows = "".join(f"{name},picture {name}\n" for name in names)
    (tmp_path / "pairs.csv").write_text(f"image,caption\n{rows}")
    out = tmp_path / "run"
    assert main(["train", str(tmp_path / "pairs.csv"), "--out", str(out), "--epochs", "1", "--set",
                 f"data.images={data}/images", *WORDS]) == 0  # fmt: skip
    said = capsys.readouterr().err
    assert "only 1 of the records is held out for validation, where R@5 is 100% whatever a model does" in said
    with pytest.warns(UserWarning, match="held out"):
        assert len(load_stored(out / "config.toml").run.data.build("train")) == 5


def test_names_and_shares() -> None:
    assert [name_of(name) for name in ("a/pairs.csv", "x/{0..9}.tar", "./", "é b.json")] == [
        "pairs", "0-9", name_of("."), "é-b",
    ]  # fmt: skip
    assert [validation_share(count, 0.05) for count in (10, 500, 1000, 5000)] == [0.2, 0.2, 0.1, 0.05]


def test_a_recipe_that_is_not_there(data: Path) -> None:
    with pytest.warns(Notice), pytest.raises(UserError, match="there is no recipe"):
        own_run(str(data / "pairs.csv"), "no-such", (), "divided")
