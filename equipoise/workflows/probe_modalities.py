"""`equipoise probe` on a model of named modalities: classes told from its points by a probe of its own.

The model stays as it is, so that what it has learned can be asked about labels that it was not trained on. The points
are those of all modalities together, or of some; a sample that lacks all of these is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from equipoise.data.source import Source, has_modalities
from equipoise.evaluation.linear_probe import Labelled, require_classes
from equipoise.models.compatibility import require_modalities
from equipoise.models.modal_model import ModalModel, subset_inputs
from equipoise.types import JOINT, UserError
from equipoise.workflows.subject import find_source

BATCH = 1024
Parts = tuple[Labelled, Labelled, Labelled]


def modal_features(model: ModalModel, data: str, overrides: Sequence[str], by: str) -> tuple[Sequence[str], Parts]:
    """Names of the classes; points to train, validate and test on."""
    names = chosen_modalities(model, by)
    sources = [find_source(data, overrides, split)[0] for split in ("train", "validation", "test")]
    classes = [_classes(source, data) for source in sources]
    if classes[0] != classes[2]:
        raise UserError(f"the classes of {data} to train on and to test on are not the same; check its labels")
    train, validation, test = (_labelled(model, source, names) for source in sources)
    require_classes(train.classes)
    return classes[0], (train, validation, test)


def chosen_modalities(model: ModalModel, by: str) -> tuple[str, ...]:
    """The modalities that `by` names, with commas between them; nothing: all of the model's."""
    names = model.modalities if by in ("", JOINT) else tuple(dict.fromkeys(name.strip() for name in by.split(",")))
    if unknown := [name for name in names if name not in model.modalities]:
        raise UserError(f'--by names "{unknown[0]}", but this model reads {", ".join(model.modalities)}; say one of it')
    return names


def _classes(source: Source, data: str) -> tuple[str, ...]:
    classes = getattr(source, "classes", ())
    if not has_modalities(source) or not classes:
        raise UserError(f"the data of {data} has no classes to probe: give modalities with class labels (data.labels)")
    return tuple(classes)


@torch.no_grad()
def _labelled(model: ModalModel, source: Source, names: tuple[str, ...]) -> Labelled:
    require_modalities(model, source, labels=False)
    assert has_modalities(source)
    there = torch.stack([source.present(name) for name in names]).any(0).nonzero()[:, 0]
    if not len(there):
        raise UserError(f"no sample has {' or '.join(names)}; name another modality with --by")
    parts = [
        model.space.project(model.subset(subset_inputs(source.batch(rows.tolist(), (), model.tokens), names), "codes"))
        for rows in there.split(BATCH)
    ]
    return Labelled(torch.cat(parts).float().cpu(), source.labels[there])
