"""`equipoise clean ... --shards FOLDER`: the pairs that are kept, written to train on without the data they are of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equipoise.config import Run
from equipoise.data.files.file_source import FileSettings
from equipoise.data.files.mixture import Mixture
from equipoise.data.files.prepare import LEFT_OUT
from equipoise.data.files.webdataset import Shards
from equipoise.data.keep.rules import WEIGHTS
from equipoise.data.keep.settings import Keep
from equipoise.data.keep.shards import write_kept
from equipoise.data.shard_writer import require_writer
from equipoise.data.source import CroppingSource, can_crop
from equipoise.io.folder_lock import only_writer
from equipoise.io.progress import Progress
from equipoise.types import UserError
from equipoise.workflows.audit.pictures import PictureData

VALIDATION = "validation"  # the folder of what the recipe holds out of its training files
WEIGHED = (
    "shards hold captions and not how much they count; choose clean.rule = threshold or share, or train with "
    "keep.folder and leave --shards out"
)


def require_shards(run: Run, folder: Path, pictures: PictureData | None = None) -> None:
    """Raise UserError, before anything is judged, where what is kept could not be written; of features their pictures
    are."""
    if run.clean.rule == WEIGHTS:
        raise UserError(f"clean.rule is {WEIGHTS}, and {WEIGHED}")
    if not _parts(pictures.settings if pictures else run.data):
        raise UserError(
            "--shards copies pictures from files, and the data of this recipe is not in files; leave it out, and train "
            "with keep.folder, or name those that features were made of: --pictures DATA"
        )
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--shards {folder} is a file; name a folder")
    require_writer()


def write_kept_pairs(run: Run, cleaned: Path, folder: Path, pictures: PictureData | None = None) -> str:
    """Write what the keep file in `cleaned`, and the decisions beside it, keep of a recipe's training pairs, or of the
    pictures that these are features of; returns how to train on it."""
    data, pairs = (pictures.settings if pictures else run.data), run.training_pairs()
    kept = Keep(str(cleaned)).applied_to(pictures.matching(pairs) if pictures else pairs)
    if getattr(kept, "caption_weights", None) is not None:
        raise UserError(f"{cleaned} weighs captions, and {WEIGHED}")
    assert can_crop(kept)
    selection = {"selection": getattr(kept, "selection", {})}
    parts = _parts(data)
    shards = _written(parts, kept, folder, selection)
    words = f"--set data.name=shards --set data.train={folder} --set data.root="
    if not pictures and any(part.files_of("validation")[1] for part in parts):  # it could not be held out again
        held_out = data.build("validation")
        assert can_crop(held_out)
        ends = [held_out.pair(index).key for index in (0, len(held_out) - 1)]
        _written(parts, held_out, folder / VALIDATION, {"held out": ends})
        words += f" --set data.validation={folder / VALIDATION}"
    else:
        words += " --set data.validation=..."
    left_out = f"; what could not be read is in {folder / LEFT_OUT}" if (folder / LEFT_OUT).exists() else ""
    told = f"{len(kept):,} images with their captions are in {len(shards)} shards in {folder}{left_out}"
    return f"{told}; for training: {words}"


def _written(
    parts: Sequence[FileSettings], source: CroppingSource, folder: Path, note: dict[str, object]
) -> list[Path]:
    keys = frozenset(part.caption_key for part in parts if isinstance(part, Shards) and part.caption_key)
    with only_writer(folder), Progress(len(source), "writing shards") as progress:
        return write_kept(source, folder, note, keys, progress=progress.update)


def _parts(data: Any) -> list[FileSettings]:
    """The settings of the files that data is read from; none where it is in no files of pictures."""
    parts = list(data.parts.values()) if isinstance(data, Mixture.Config) else [data]
    return [part for part in parts if isinstance(part, FileSettings)]
