"""Cleaning from beginning to end: judges, P(right) of every caption, decisions, the keep file."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.analysis.evidence import EVIDENCE
from equipoise.analysis.noise_kinds import KINDS
from equipoise.config import Loaded, Run
from equipoise.data.keep.carry_decisions import carry_decisions
from equipoise.data.keep.file import NO_OTHER, TABLE, KeepTable, digest, require_pyarrow, write_keep
from equipoise.data.keep.records import records
from equipoise.data.keep.rules import WEIGHTS, caption_weights, kept_captions, reason
from equipoise.data.keep.settings import Clean
from equipoise.data.source import Source
from equipoise.io.numbers import hand_over
from equipoise.models.model import Model
from equipoise.reports.curate_page import PAGE
from equipoise.spaces import Space
from equipoise.training.checkpoint.run_folder import locked_run
from equipoise.types import UserError
from equipoise.workflows.audit import Audit, audit_data, scoring_by
from equipoise.workflows.audit.folds import training_pairs
from equipoise.workflows.audit.pictures import PictureData
from equipoise.workflows.audit.points import PointsOf, points_here
from equipoise.workflows.audit.points_job import JudgedData
from equipoise.workflows.audit.stopwatch import JUDGING, Stopwatch
from equipoise.workflows.clean.cleaned import Cleaned
from equipoise.workflows.clean.judging_run import judging_run
from equipoise.workflows.clean.page import write_curators_page
from equipoise.workflows.clean.probability import Evidence
from equipoise.workflows.clean.proposals import Proposals
from equipoise.workflows.clean.rematch import REMATCH_LEAST, Rematching, looking, rematched_truth, with_rematched
from equipoise.workflows.clean.rounds import further_round
from equipoise.workflows.clean.shards import require_shards, write_kept_pairs
from equipoise.workflows.clean.truth import kinds_against_truth, measured
from equipoise.workflows.clean.unreadable import BELOW_ALL, said_of, without_picture
from equipoise.workflows.engines import Engine
from equipoise.workflows.load import load
from equipoise.workflows.subject import find_run

SHOW, MOST = 200, 5000  # suspicious captions on the page: by default, and as many as a browser bears
OF_RULE = ("reading", "evidence", "per", "rule", "threshold", "share")  # settings by which captions are kept
FEW = 0.5  # of the captions that look right, below which it is warned of how many are kept


def run_clean(
    data: str,
    recipe: str,
    overrides: Sequence[str],
    model: Path | None,
    folder: Path,
    show: int = SHOW,
    shards: Path | None = None,
    engine: Engine = Engine(),  # noqa: B008 (frozen)
    pictures: str = "",
) -> int:
    """Clean DATA, with judges of `recipe` where it is files, or with the model at a path, and write what is kept to
    `shards`; `pictures` names those that features were made of. Returns the exit status."""
    if not 0 <= show <= MOST:
        raise UserError(f"--show is {show}; ask for 0 (no page) to {MOST:,} captions")
    shown = PictureData.named(pictures) if pictures else None
    loaded = find_run(data, recipe, overrides, trains=model is None)
    if shards:
        require_shards(loaded.run, shards, shown)
    try:
        judge = load(model, loaded.run.training.torch_device()) if model else None
        given = model or (Path(loaded.run.clean.model) if loaded.run.clean.model else None)
        with scoring_by(engine, JudgedData(data, recipe, tuple(overrides)), given, folder) as points:
            cleaned = clean_data(loaded, folder, judge, show, points, shown)
        written = write_kept_pairs(loaded.run, folder, shards, shown) if shards else ""
    except KeyboardInterrupt:
        print("Stopped; the same command goes on where it was")
        return 128 + signal.SIGINT
    print(f"\n{cleaned.sentence}\n{folder / TABLE} says which; train on the rest with: --set keep.folder={folder}")
    if cleaned.page:
        print(f"To look at the most suspicious ones and decide by hand, open {cleaned.page}")
    if written:
        print(written)
    for name, value in cleaned.truth.items():
        print(f"{name.replace('_', ' ')}: {value:.3f}")
    return 0


def clean_data(
    loaded: Loaded,
    folder: Path,
    model: Model | None = None,
    show: int = SHOW,
    points: PointsOf = points_here,
    pictures: PictureData | None = None,
) -> Cleaned:
    """Judge every caption of a recipe's training pairs and write the keep file to `folder`, and a page that shows the
    `show` most suspicious ones, with `pictures` where the pairs are features.

    Without a model, judges are trained on the pairs themselves, fold by fold; what is finished is not done again.
    A model that is given, here or as `clean.model`, judges all pairs at once. It must not have been trained on them.
    """
    _require_whole(loaded.run)
    require_pyarrow(folder / TABLE)  # before anything is trained
    settings, judging = loaded.run.clean, judging_run(loaded)
    if model is None and settings.model:
        model = load(Path(settings.model), loaded.run.training.torch_device())
    _require_cosines(settings, (model or judging.run).space)
    by = {name: getattr(settings, name) for name in ("folds", "judges", "seed", "evidence", "reading")}
    audit = Audit(**by, neighbours=0, copies=show > 0)
    rounds = settings.rounds if model is None else 1
    proposals, rematching = Proposals(show, settings.per), Rematching()
    look = looking(proposals.look, rematching.look if settings.rematch else None)
    clock = Stopwatch(folder, anew=True)
    source = training_pairs(loaded.run)
    source = pictures.beside(source) if pictures else source
    verdict = audit_data(judging, audit, folder, model, look if rounds == 1 else None, points, clock, source)
    first = evidence = Evidence.of(verdict)
    with locked_run(folder), clock.on(JUDGING):
        first.require_knowledge()
        for number in range(2, rounds + 1):
            chosen = _chosen(evidence, settings, first)
            last = look if number == rounds else None
            evidence = further_round(judging, source, verdict.parts, folder, first, chosen, last, number, clock, points)
            evidence.require_knowledge()
        cleaned = _decided(source, evidence, first, settings, rematching)
        _warn_of_few(cleaned, settings)
        (folder / PAGE).unlink(missing_ok=True)  # it would be on other probabilities
        kinds = verdict.kinds(evidence.right(settings.per, prior=first))
        table = write_table(cleaned, evidence, kinds, source, loaded, folder, pictures)
        if show:
            wrong = partial(evidence.still_wrong, settings.per, prior=first) if _tells_what_is_left(settings) else None
            page = write_curators_page(folder, table, source, proposals, verdict.copies, evidence, wrong)
            cleaned = replace(cleaned, page=page)
        clock.finish()
    return cleaned


def _decided(source: Source, evidence: Evidence, first: Evidence, settings: Clean, rematching: Rematching) -> Cleaned:
    """Which captions are kept, by the evidence of the last round and the share that the first round read."""
    gone = without_picture(source, first.owners)
    right = np.where(gone, BELOW_ALL, _right(evidence, settings, prior=first))
    keep = kept_captions(right, settings.rule, settings.threshold, settings.share or first.share) & ~gone
    right = right.clip(0, 1)  # a cosine may be below 0, and is ranked so
    truth, instead = measured(source, first.owners, right, keep), None
    left = _left(evidence, first, settings, right, keep)
    if settings.rematch:
        instead = np.where(gone, NO_OTHER, rematching.instead(first.owners, keep, REMATCH_LEAST))
        truth |= rematched_truth(source, first.owners, instead)
    return Cleaned(first, right, keep, len(source), truth, instead, gone=gone, left=left)


def _tells_what_is_left(settings: Clean) -> bool:
    """Whether decoys are judged as wrong captions are: not by judges that learned the wrong ones by heart, nor where
    what is said is no P(right)."""
    return settings.evidence == "ratio" and not settings.seen


def _left(evidence: Evidence, first: Evidence, settings: Clean, right: np.ndarray, keep: np.ndarray) -> float | None:
    """The share of what is kept that is wrong all the same; None where that cannot be told, or all is kept."""
    known = keep & ~np.isnan(right)
    if not _tells_what_is_left(settings) or settings.rule == WEIGHTS or not known.any():
        return None
    lowest = settings.threshold if settings.rule == "threshold" else float(right[known].min())
    wrong = evidence.still_wrong(settings.per, [lowest], first)
    return None if wrong is None else min(float(wrong[0]) / int(known.sum()), 1.0)


def _warn_of_few(cleaned: Cleaned, settings: Clean) -> None:
    """Warn where far fewer captions are kept than look right: evidence need not be a probability, and rules may err."""
    kept, right = int(cleaned.keep.sum()), 1 - cleaned.evidence.interval[1]
    if kept < FEW * right * len(cleaned.keep):
        warnings.warn(
            f"{kept:,} of {len(cleaned.keep):,} captions are kept, though {right:.0%} of them or more look right: few "
            f"reach what clean.rule = {settings.rule!r} asks of clean.evidence = {settings.evidence!r}; choose another "
            "rule (clean.rule=share) or threshold, or let the judges train longer (clean.steps)",
            stacklevel=3,
        )


def _right(evidence: Evidence, settings: Clean, prior: Evidence | None = None) -> np.ndarray:
    """P(right) of every caption [M], or what stands for it in the evidence that was chosen."""
    if settings.evidence in EVIDENCE:
        return evidence.scored(settings.per)
    return evidence.split(settings.per) if settings.evidence == "gmm" else evidence.right(settings.per, prior)


def _chosen(evidence: Evidence, settings: Clean, first: Evidence) -> list[np.ndarray]:
    """The captions that each judge of the next round learns from, by P(right) of all judges together, or of the
    other."""
    rule = "threshold" if settings.rule == WEIGHTS else settings.rule
    if settings.evidence == "co_teaching":
        rights = [evidence.scored(settings.per, judge=1 - number) for number in range(settings.judges)]
    else:
        rights = [_right(evidence, settings, prior=first)] * settings.judges
    return [kept_captions(right, rule, settings.threshold, settings.share or first.share) for right in rights]


def _require_whole(run: Run) -> None:
    """Raise UserError for a run whose pairs are not to be judged as a whole, and first."""
    if run.keep.folder:
        raise UserError("the recipe trains on what was cleaned before (keep.folder); clean the whole: keep.folder = ''")
    if run.clean.online:
        raise UserError("clean.online judges pairs while a model is trained: it belongs to `equipoise train --clean`")


def _require_cosines(settings: Clean, space: Space) -> None:
    if settings.evidence == "score" and space.range != (-1.0, 1.0):
        raise UserError(
            f"evidence score is a cosine, and similarities of the space {type(space).__name__} go from "
            f"{space.range[0]:g} to {space.range[1]:g}; choose a model on the sphere, or other evidence"
        )


def write_table(
    cleaned: Cleaned,
    evidence: Evidence,
    kinds: list[str],
    source: Source,
    loaded: Loaded,
    folder: Path,
    pictures: PictureData | None = None,
) -> KeepTable:
    """The keep file of what was decided; `kinds` is empty where they are not known."""
    settings = loaded.run.clean
    share = settings.share or cleaned.evidence.share
    named = list(records(source))
    keys = [key for key, texts in named for _ in texts]
    reasons = [
        reason(right, keep, settings.rule, settings.threshold, share)
        for right, keep in zip(cleaned.right.tolist(), cleaned.keep.tolist(), strict=True)
    ]
    numbers = np.concatenate([np.arange(len(texts)) for _, texts in named])
    fingerprints = np.concatenate([texts for _, texts in named])
    weight = caption_weights(cleaned.right, cleaned.keep, settings.rule)
    table = KeepTable(keys, numbers, fingerprints, cleaned.right, cleaned.keep, weight, reasons, kinds)
    if cleaned.gone is not None and cleaned.gone.any():
        table = said_of(table, cleaned.gone)
    if cleaned.instead is not None:
        table = with_rematched(table, cleaned.instead)
    note = _note(cleaned, evidence, digest(key for key, _ in named), loaded)
    note |= {"still_wrong": cleaned.left} if cleaned.left is not None else {}
    note |= {"unreadable": {"images": cleaned.images_gone}} if cleaned.images_gone else {}
    if kinds:
        note["kinds"] = {kind: list(table.kinds).count(kind) for kind in KINDS}
        note |= kinds_against_truth(source, cleaned.evidence.owners, table.kinds)
    if pictures:
        note["pictures"] = pictures.note()
    carry_decisions(folder, table)
    write_keep(folder, table, note)
    told = {name: value for name, value in note.items() if name not in ("recipe", "pictures")}
    hand_over({**told, "folder": str(folder)})
    return table


def _note(cleaned: Cleaned, evidence: Evidence, keys: str, loaded: Loaded) -> dict[str, Any]:
    settings = loaded.run.clean
    return {
        "finding": cleaned.sentence,
        "records": cleaned.records,
        "captions": len(cleaned.keep),
        "digest_of_keys": keys,
        "noise": cleaned.evidence.share,
        "interval": cleaned.evidence.interval,
        "rule": {name: getattr(settings, name) for name in OF_RULE},
        "kept": {"captions": int(cleaned.keep.sum()), "images": cleaned.images_left},
        "judges": [
            {"auroc_of_shuffled": auroc, "knows": knows, "noise": reading.share}
            for auroc, knows, reading in zip(evidence.aurocs, evidence.knowing, evidence.readings, strict=True)
        ],
        "truth": cleaned.truth,
        "recipe": loaded.table,
    }
