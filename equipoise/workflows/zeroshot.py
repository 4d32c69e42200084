"""`equipoise zeroshot`: which of some classes is each picture of, by their names alone; accuracy where it is known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equipoise.data.files.classes import DEFAULT_TEMPLATES, checked_names, checked_templates, read_lines
from equipoise.data.source import Source, is_labelled
from equipoise.evaluation.encoding import Captions, encode_images, fill
from equipoise.evaluation.metrics import percent
from equipoise.evaluation.results import table
from equipoise.evaluation.settings import Evaluation
from equipoise.evaluation.zeroshot import class_scores, zero_shot, zero_shot_chance
from equipoise.io.atomic import write_text
from equipoise.io.numbers import as_json, hand_over
from equipoise.io.tables import make_table, print_tables
from equipoise.models.model import Model
from equipoise.settings.nearby import meant_path
from equipoise.types import UserError
from equipoise.workflows.load import load
from equipoise.workflows.pictures import find_pictures

ROWS = 40  # pictures in the printed table
FILE = "zeroshot.json"


@dataclass(frozen=True)
class ZeroShotRequest:
    classes: str = ""  # names with commas between them, or a file with one a line; empty: those of the data
    templates: tuple[str, ...] = ()  # empty: those of the data, else "a photo of a {}."
    top: int = 3  # classes shown for a picture


def classify_pictures(
    path: str | Path, pictures: Sequence[str], request: ZeroShotRequest, overrides: Sequence[str], out: Path | None
) -> dict[str, Any]:
    """Classify, print, hand over, and write JSON to `out` if there is one; returns what was found."""
    if request.top < 1:
        raise UserError(f"--top must be at least 1, not {request.top}")
    named = _class_names(request.classes)
    sources = find_pictures(pictures, overrides)
    classes = named or _classes_of(sources)
    templates = checked_templates(request.templates, "--template") or _templates_of(sources)
    model = load(path, "auto")
    prompts = _prompt_points(model, templates, classes)
    points = torch.cat([encode_images(model, source, Evaluation.batch_size) for source in sources])
    found = {
        "model": str(path),
        "classes": list(classes),
        "templates": list(templates),
        "pictures": _pictures(model, points, prompts, classes, sources, request.top),
        **_accuracy(model, points, prompts, classes, sources),
    }
    _print(found)
    hand_over(found)
    if out is not None:
        write_text(out / FILE, as_json(found) + "\n")
        print(f"\nAll of it is in {out / FILE}")
    return found


def _class_names(words: str) -> tuple[str, ...]:
    if not words:
        return ()
    path = Path(words)
    if path.is_file():
        names, where = read_lines(path, "names of classes"), str(path)
    elif "," not in words and (path.suffix or path.name != words):
        raise UserError(f"{path}: there is no such file of class names{meant_path(path)}; give one, or a,b,c")
    else:
        names, where = tuple(filter(None, map(str.strip, words.split(",")))), "--classes"
    if len(names) < 2:
        raise UserError(f"{where}: there is nothing to choose among {len(names)} classes; name two at least")
    return checked_names(names, where)


def _classes_of(sources: Sequence[Source]) -> tuple[str, ...]:
    names = dict.fromkeys(name for source in sources if is_labelled(source) for name in source.class_names)
    if len(names) < 2:
        raise UserError(
            "these pictures come without names of classes; give them with --classes a,b,c or --classes FILE"
        )
    return tuple(names)


def _templates_of(sources: Sequence[Source]) -> tuple[str, ...]:
    own = {source.templates for source in sources if is_labelled(source)}
    return own.pop() if len(own) == 1 else DEFAULT_TEMPLATES


def _prompt_points(model: Model, templates: tuple[str, ...], classes: tuple[str, ...]) -> Tensor:
    """[C, T, d]; raises UserError for a prompt that is too long, since its end may be the class's name."""
    prompts = fill(templates, classes)
    texts = [text for several in prompts for text in several]
    model.tokens(texts, [f'the class "{name}"' for name in classes for _ in templates], strict=True)
    return Captions(texts, torch.arange(len(texts))).points(model).unflatten(0, (len(classes), len(templates)))


def _pictures(
    model: Model, points: Tensor, prompts: Tensor, classes: Sequence[str], sources: Sequence[Source], top: int
) -> list[dict[str, Any]]:
    """For each picture its closest classes, with the probabilities of a softmax at the model's logit scale."""
    scale, found = float(model.log_scale.detach().exp()), []
    pairs = (source.pair(index) for source in sources for index in range(len(source)))
    for scores in class_scores(points, prompts, model.space):
        shares = (scale * scores).softmax(dim=1)
        best = scores.topk(min(top, len(classes)), dim=1).indices
        for similarity, share, chosen in zip(scores, shares, best.tolist(), strict=True):
            pair = next(pairs)
            guesses = [
                {"class": classes[c], "probability": float(share[c]), "similarity": float(similarity[c])}
                for c in chosen
            ]
            label = {} if pair.label is None else {"label": pair.label}
            found.append({"picture": pair.key, **label, "classes": guesses})
    return found


def _accuracy(
    model: Model, points: Tensor, prompts: Tensor, classes: Sequence[str], sources: Sequence[Source]
) -> dict[str, Any]:
    """Metrics over the pictures whose class is among those asked for; nothing where there is none."""
    number = {_plain(name): place for place, name in enumerate(classes)}
    if len(number) < len(classes):
        return {}
    labels = [source.pair(index).label for source in sources for index in range(len(source))]
    known = [place for place, label in enumerate(labels) if label is not None and _plain(label) in number]
    if not known:
        return {}
    truth = torch.tensor([number[_plain(str(labels[place]))] for place in known])
    return {
        "metrics": zero_shot(points[known], truth, prompts, model.space),
        "chance": zero_shot_chance(len(classes)),
        "judged": len(known),
        "of_other_classes": sum(label is not None for label in labels) - len(known),
    }


def _plain(name: str) -> str:
    """A class's name as it is compared: `Golden_Retriever` is `golden retriever`."""
    return " ".join(re.sub(r"[\W_]+", " ", name.casefold()).split())


def _print(found: dict[str, Any]) -> None:
    pictures = found["pictures"]
    columns = ("picture", *(["label"] if any("label" in one for one in pictures) else []), "class", "", "then")
    rows = []
    for one in pictures[:ROWS]:
        first, *others = one["classes"]
        then = ", ".join(f"{other['class']} {percent(other['probability'])}" for other in others)
        label = [one.get("label", "")] if "label" in columns else []
        rows.append((one["picture"], *label, first["class"], percent(first["probability"]), then))
    print_tables(make_table(columns, rows, text_columns=len(columns)))
    if len(pictures) > ROWS:
        print(f"... and {len(pictures) - ROWS:,} more pictures; --json prints all, --out FOLDER writes them")
    if metrics := found.get("metrics"):
        print_tables(table(metrics, found["chance"], f"{found['judged']:,} pictures whose class is known"))
        if others := found["of_other_classes"]:
            print(f"{others:,} pictures of classes that were not asked for are not counted")
