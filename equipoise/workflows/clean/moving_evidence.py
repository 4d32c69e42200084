"""The moving average of what judges say of pairs they never saw, and its file, for pairs judged while a model trains.

    aᵢ ← μ aᵢ + (1 - μ) log rᵢ,    π_k ← μ π_k + (1 - μ) π̂_k         (the first time they are log rᵢ and π̂_k)

i a caption of fold k; log rᵢ and π̂_k what the judge of the fold says now (`audit/judge.py`). Where it knows nothing
now, all of its fold stays as it was, and so do captions that it was not asked about; aᵢ is nan until it was once.
`clean/online-STEP.npz` holds the average that pairs are weighed by up to that step of the model; the one before is
removed once it is written. The interval of π is averaged as π is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from equipoise.analysis.noise import NoiseEstimate
from equipoise.io.atomic import replacing
from equipoise.types import UserError
from equipoise.workflows.audit.judge import Judgement
from equipoise.workflows.clean.probability import Evidence

NAME = re.compile(r"online-(\d{8})\.npz")
FIELDS = ("log_ratio", "owners", "fold", "share", "interval", "auroc", "knows")


def evidence_of(
    found: Sequence[Judgement], asked: Sequence[Sequence[int]], folds: Sequence[Sequence[int]], counts: np.ndarray
) -> Evidence:
    """What the judges of all folds say now of the records that they were asked about, in the order of the data;
    `counts` [N] captions of each record."""
    judged = np.concatenate([np.array(part)[one.image_of_text] for part, one in zip(asked, found, strict=True)])
    owners, fold = np.repeat(np.arange(len(counts)), counts), np.zeros(len(counts), dtype=np.int64)
    for number, part in enumerate(folds):
        fold[list(part)] = number
    ratios = np.full(len(owners), np.nan)
    said = torch.cat([one.log_ratio for one in found]).numpy()
    ratios[np.isin(owners, judged)] = said[np.argsort(judged, kind="stable")]
    readings, aurocs, knowing = zip(*((one.reading, one.auroc, one.knows) for one in found), strict=True)
    return Evidence(ratios, owners, fold, readings, aurocs, knowing, [len(part) for part in folds])


def averaged(new: Evidence, before: Evidence | None, momentum: float) -> Evidence:
    """The average after `new`; a judge counts as knowing something once it has."""
    if before is None:
        return new
    ratios, readings, knowing = new.log_ratio.copy(), list(new.readings), list(new.knowing)
    for number, (knows, knew) in enumerate(zip(new.knowing, before.knowing, strict=True)):
        if not knew:
            continue
        stays, rows = momentum if knows else 1.0, new.fold[new.owners] == number
        old, now = before.log_ratio[rows], new.log_ratio[rows]
        ratios[rows] = np.where(np.isnan(now), old, _averaged_where_known(old, now if knows else old, stays))
        readings[number] = _between(before.readings[number], new.readings[number], stays)
        knowing[number] = True
    return replace(new, log_ratio=ratios, readings=readings, knowing=knowing)


def _averaged_where_known(old: np.ndarray, new: np.ndarray, stays: float) -> np.ndarray:
    """The average of two, which is the new one where there was none."""
    return np.where(np.isnan(old), new, stays * old + (1 - stays) * new)


def _between(before: NoiseEstimate, new: NoiseEstimate, stays: float) -> NoiseEstimate:
    share, low, high = (
        stays * old + (1 - stays) * now
        for old, now in zip((before.share, *before.interval), (new.share, *new.interval), strict=True)
    )
    return replace(new, share=share, interval=(low, high))


def store(folder: Path, step: int, evidence: Evidence) -> None:
    path = folder / f"online-{step:08d}.npz"
    with replacing(path) as temporary, temporary.open("wb") as stream:
        np.savez(
            stream,
            log_ratio=evidence.log_ratio,
            owners=evidence.owners,
            fold=evidence.fold,
            share=np.array([reading.share for reading in evidence.readings]),
            interval=np.array([reading.interval for reading in evidence.readings]),
            auroc=np.array(evidence.aurocs),
            knows=np.array(evidence.knowing),
        )
    for older in _files(folder):
        if older != path:
            older.unlink()


def stored(folder: Path) -> tuple[int, Evidence] | None:
    """The newest average, and the step of the model that it is for; None where there is none."""
    if not (paths := _files(folder)):
        return None
    try:
        with np.load(paths[-1], allow_pickle=False) as file:
            log_ratio, owners, fold, share, interval, auroc, knows = (file[name] for name in FIELDS)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{paths[-1]} cannot be read ({error}); start the run again in another folder") from error
    ends = zip(share.tolist(), interval.tolist(), strict=True)
    readings = [NoiseEstimate(one, (low, high), 0.0, 0.0) for one, (low, high) in ends]
    sizes = np.bincount(fold, minlength=len(readings)).tolist()
    step = int(paths[-1].stem.removeprefix("online-"))
    return step, Evidence(log_ratio, owners, fold, readings, auroc.tolist(), knows.tolist(), sizes)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("online-*.npz") if NAME.fullmatch(path.name))
