"""What a command looks at: DATA, which is a recipe or files, and the model it is shown to.

    demo                              a built-in recipe
    mine.toml, ./mine                 a recipe's file
    photos, 'a/{0..9}.tar', a.csv     files: a folder, shards, a table, a URL

A word with a slash or a suffix is a path. A bare word that is the name of a built-in recipe and of a folder as well
raises UserError; `./demo` is then the folder, `recipe:demo` the recipe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from equipoise.config import Loaded, load_run, load_stored
from equipoise.data.files import Mixture
from equipoise.data.files.file_source import FileSettings
from equipoise.data.files.infer_format import looks_like_data
from equipoise.data.files.paths import as_tuple
from equipoise.data.source import Source
from equipoise.data.splits import SPLITS
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.models.folder import CONFIG, model_folder
from equipoise.models.model import Model
from equipoise.settings.recipe import PREFIX, built_in_files, read_recipe, two_meanings
from equipoise.types import UserError
from equipoise.workflows.load import load
from equipoise.workflows.own_files import RECIPE, own_run, own_settings, recipe_run

FilePart = tuple[FileSettings, tuple[str, ...]]  # how files are read, and the patterns that name them


@dataclass(frozen=True)
class Subject:
    """A model and the data it is shown."""

    path: Path  # the model's
    data: str = ""  # a recipe or files; empty: what the model was trained on
    overrides: Sequence[str] = ()
    split: str = "train"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.data:
            names_files(self.data)  # a name with two meanings raises UserError before a model is loaded

    def model(self) -> Model:
        """The model, on a GPU where there is one."""
        return load(self.path, "auto")

    def source(self) -> Source:
        if self.data:
            return find_source(self.data, self.overrides, self.split)[0]
        return load_stored(model_folder(self.path) / CONFIG, self.overrides).run.data.build(self.split)

    @property
    def shown(self) -> str:
        """The data in a few words."""
        if self.data and names_files(self.data):
            return "/".join(Path(self.data).parts[-2:])
        return f"{self.data or 'its own data'}, {self.split}"

    def facts(self) -> dict[str, object]:
        return {"model": str(self.path), "data": self.shown, "set": list(self.overrides), "seed": self.seed}


def names_files(data: str) -> bool:
    """Whether DATA means files, and not a recipe; raises UserError for a name that is both."""
    if data.startswith(PREFIX):
        return False
    if data in built_in_files() and Path(data).exists():
        raise two_meanings(data, "folder" if Path(data).is_dir() else "file")
    return looks_like_data(data)


def find_source(
    data: str, overrides: Sequence[str], split: str, *, of_files: bool = False
) -> tuple[Source, dict[str, object]]:
    """A split of a recipe's data, or all of the data at a path, and a description of it for a record; `of_files`: the
    split of files too, which must have splits."""
    if names_files(data):
        about: dict[str, object] = {"path": data, **({"set": list(overrides)} if overrides else {})}
        if of_files:
            return own_settings(data, overrides, divided=True).build(split), {**about, "split": split}
        return own_settings(data, overrides).build("test"), about
    loaded = load_run(data, overrides)
    return loaded.run.data.build(split), {"split": split, **loaded.table["data"]}


def find_parts(data: str, overrides: Sequence[str] = (), split: str | None = None) -> dict[str, FilePart]:
    """The sets of files that a path or a recipe names, each by its own name, which is empty if there is just one."""
    if names_files(data):
        if split:
            raise UserError("--split belongs to recipes; give a recipe that reads the data, or leave it out")
        own = own_settings(data, overrides)
        return {"": (own, as_tuple(own.test))}
    settings = load_run(data, overrides).run.data
    sources = settings.parts if isinstance(settings, Mixture.Config) else {"": settings}
    parts: dict[str, FilePart] = {}
    for name, source in sources.items():
        if not isinstance(source, FileSettings):
            raise UserError(f"{data}: the data of this recipe are not pictures in files, so there is nothing to read")
        for part in (split,) if split else SPLITS:
            if patterns := as_tuple(getattr(source, part)):
                parts["/".join(filter(None, (name, part)))] = (source, patterns)
    if not parts:
        raise UserError(f"{data}: this recipe names no files; say where the data is, for instance --set data.train=...")
    return parts


def find_tokens(data: str, overrides: Sequence[str] = ()) -> CaptionTokenizer.Config | None:
    """The settings of a recipe's tokenizer; None for files, which have none."""
    return None if names_files(data) else load_run(data, overrides).run.caption_tokens()


def find_run(data: str, recipe: str, overrides: Sequence[str], use: str = "judged", *, trains: bool = True) -> Loaded:
    """The run of a recipe; for files, the run of `recipe` with these files as its data, or where that is empty of one
    whose sizes follow the data (`own_files.py`)."""
    if not names_files(data):
        return recipe_run(read_recipe(data, overrides).layers) if use == "judged" else load_run(data, overrides)
    trained = trains and use == "judged"
    return own_run(data, recipe or RECIPE, overrides, use, sized=trained and not recipe, trains=trained)
