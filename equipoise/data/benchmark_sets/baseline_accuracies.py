"""Accuracies of baseline models from a CSV, for effective robustness: model,set,accuracy, a line each, shares from 0 to
1. Models that were trained on ImageNet's labels, whose accuracies are published, need not be run here."""

from __future__ import annotations

import csv
from pathlib import Path

from equipoise.types import UserError

COLUMNS = ("model", "set", "accuracy")
Accuracies = dict[str, dict[str, float]]  # by model, by set


def read_accuracies(file: Path) -> Accuracies:
    """Accuracies by model and set; raises UserError for a line that cannot be read."""
    found: Accuracies = {}
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines, strict=True)
            if not set(COLUMNS) <= set(reader.fieldnames or ()):
                raise UserError(f"{file}: the first line must name the columns {', '.join(COLUMNS)}")
            for row in reader:
                where = f"{file}, line {reader.line_num}"
                model, name, share = row["model"], row["set"], _share(row["accuracy"], where)
                if name in found.setdefault(model, {}):
                    raise UserError(f"{where}: {model} has an accuracy on {name} already; leave one out")
                found[model][name] = share
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}; --baseline names a model or a CSV") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"{file} is no CSV: {error}") from None
    if not found:
        raise UserError(f"{file}: there is no accuracy in it; give {','.join(COLUMNS)}, a line each")
    return found


def _share(text: str | None, where: str) -> float:
    try:
        share = float(text or "")
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UserError(f"{where}: accuracy must be a share from 0 to 1, not {text!r}")
    return share
