"""Where the captions that a run was trained on can be looked at and decided on by a person, once it is trained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from equipoise.data.keep.settings import Keep
from equipoise.models.model import Model
from equipoise.reports.curate_page import PAGE
from equipoise.workflows.clean.training import FOLDER


@dataclass(frozen=True)
class ByHand:
    """The page of a keep file and the service that shows it, each empty where there is none, and how to go by them."""

    page: str
    link: str  # to the page from the report, where both lie in the run's folder
    serve: str
    train: str

    @property
    def sentence(self) -> str:
        ways = [f"open {self.page}"] * bool(self.page) + [f"run {self.serve}"] * bool(self.serve)
        decided = f"To look at the most suspicious captions and decide by hand, {' or '.join(ways)}"
        return f"{decided}; then train anew with {self.train}"


def by_hand(keep: Keep, run: Path, model: Model) -> ByHand | None:
    """The ways to decide on the keep file of the run in a folder; None where it has none, or nothing shows it."""
    if not keep.folder:
        return None
    folder = Path(keep.folder)
    own = folder == run / FOLDER
    has_page = (folder / PAGE).is_file()
    serve = f"equipoise serve {run}" if _is_served(model) else ""
    found = ByHand(
        page=str(folder / PAGE) if has_page else "",
        link=f"{FOLDER}/{PAGE}" if has_page and own else "",
        serve=f"{serve} --suspects {folder}" if serve and not own else serve,
        train=f"--set keep.folder={folder}",
    )
    return found if found.page or found.serve else None


def _is_served(model: Model) -> bool:
    return (model.image_encoder.reads, model.text_encoder.reads) == ("pictures", "words")
