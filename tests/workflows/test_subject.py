"""DATA is a recipe or files: which of the two a word means, and what each resolver makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from equipoise.config import load_run
from equipoise.data.files import Folders
from equipoise.settings.recipe import find_recipe
from equipoise.types import UserError
from equipoise.workflows import evaluate_folder
from equipoise.workflows.subject import Subject, find_parts, find_run, find_source, names_files


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with class folders in `demo/` and a recipe in the file `clip-scenes`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo" / "red").mkdir(parents=True)
    Image.new("RGB", (8, 8), "red").save(tmp_path / "demo" / "red" / "1.png")
    (tmp_path / "clip-scenes").write_text('extends = "recipe"\nseed = 5\n')
    (tmp_path / "recipe.toml").write_text("seed = 4\n")
    return tmp_path


@pytest.mark.usefixtures("here")
def test_a_slash_or_a_suffix_means_a_path_and_a_prefix_the_recipe() -> None:
    for files in ("./demo", "demo/", "demo/red", "photos.tar", "pairs.csv", "photos-*.tar", "https://a.b/c.tar"):
        assert names_files(files), files
    for recipe in ("recipe:demo", "fdt-scenes", "./clip-scenes", "recipe.toml"):
        assert not names_files(recipe), recipe
    assert find_recipe("./clip-scenes") == Path("clip-scenes")
    assert load_run("./clip-scenes").run.seed == 5
    assert load_run("recipe:clip-scenes") != load_run("./clip-scenes")
    assert load_run("demo") == load_run("recipe:demo")  # a folder is no recipe, so only one thing can be meant


@pytest.mark.usefixtures("here")
def test_a_bare_name_that_is_both_raises_with_the_two_spellings() -> None:
    for name, kind in (("demo", "folder"), ("clip-scenes", "file")):
        sentence = f"also a {kind} here; write recipe:{name} for the recipe, or ./{name} for the {kind}"
        for resolve in (
            lambda name=name: names_files(name),
            lambda name=name: Subject(Path("none"), name),
            lambda name=name: find_source(name, (), "test"),
            lambda name=name: find_parts(name),
            lambda name=name: find_run(name, "flickr8k", ()),
        ):
            with pytest.raises(UserError, match=sentence):
                resolve()
    with pytest.raises(UserError, match="also a file here"):
        load_run("clip-scenes")


def test_a_recipe_that_is_not_built_in_is_named_without_its_prefix() -> None:
    with pytest.raises(UserError, match='there is no recipe "dmeo", and no such file or folder; '):
        find_recipe("recipe:dmeo")


@pytest.mark.usefixtures("here")
def test_each_resolver_reads_files_and_recipes() -> None:
    source, about = find_source("./demo", (), "train")
    assert (len(source), about) == (1, {"path": "./demo"})
    source, about = find_source("recipe:demo", ["data.validation_size=3"], "validation")
    assert (len(source), about["split"]) == (3, "validation")
    assert find_parts("./demo") == {"": (Folders(test="./demo"), ("./demo",))}
    assert list(find_parts("flickr8k", ["data.root=photos"], "train")) == ["train"]
    followed = find_run("./demo", "", ["seed=3"]).run  # sizes follow the data where no recipe is named
    assert (followed.name, followed.training.steps) == ("demo", 30)
    run = find_run("./demo", "flickr8k", ["seed=3"]).run
    assert (run.data.train, run.data.validation, run.data.test, run.seed) == ("./demo", "./demo", "", 3)
    assert isinstance(run.data, Folders)
    assert run.training.batch_size == 2  # not 256, of one picture
    assert Subject(Path("none"), "./demo").shown == "demo"
    assert Subject(Path("none"), "recipe:demo", split="test").shown == "recipe:demo, test"


@pytest.mark.usefixtures("here")
def test_settings_of_a_recipe_are_refused_for_files() -> None:
    with pytest.raises(UserError, match="--set belongs to recipes"):
        find_source("./demo", ["seed=3"], "test")
    with pytest.raises(UserError, match="--split belongs to recipes"):
        find_parts("./demo", (), "test")
    templates = find_source("./demo", ['data.templates=["{}!"]'], "test")[0].pair(0).captions
    assert templates == ("red!",)
    with pytest.raises(UserError, match=r'unknown key "data\.colour"'):
        find_parts("./demo", ["data.colour=3"])


def test_evaluation_reads_a_models_settings_once(finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from equipoise import config

    read, paths = config.read_table, []
    monkeypatch.setattr(config, "read_table", lambda path, overrides=(): (paths.append(path), read(path, overrides))[1])
    evaluate_folder(finished_run, None, (), "test", None, before=finished_run)
    assert len(paths) == 2  # one per model
