"""Training by a recipe: data, tokenizer, model and loop put together."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from itertools import islice
from pathlib import Path
from weakref import WeakKeyDictionary

import torch

from equipoise.config import Loaded, Run, dump
from equipoise.data.batches import Batches
from equipoise.data.keep.readable import readable
from equipoise.data.keep.record import record_captions
from equipoise.data.source import Source, has_features, has_modalities
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.evaluation.evaluate import ALL_QUICK, validate, validation_metrics
from equipoise.io.atomic import write_text
from equipoise.io.digests import renew_digest
from equipoise.models.code_scale import SAMPLES, set_code_scale
from equipoise.models.compatibility import require_compatible
from equipoise.models.folder import CONFIG, read_parts, step_folders
from equipoise.models.modal_model import ModalModel
from equipoise.models.model import Model
from equipoise.models.shapes import require_room
from equipoise.reports.report import REPORT
from equipoise.training.distributed.agreement import data_facts, model_facts, require_agreement
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.distributed.wrap import device_of_rank
from equipoise.training.freezing import named
from equipoise.training.loop import TrainResult, train
from equipoise.types import UserError
from equipoise.workflows.load import build_model
from equipoise.workflows.sizes import with_steps
from equipoise.workflows.start_model import Start, set_temperature

CAPTIONS_FOR_TOKENS = 50_000  # enough to learn a vocabulary from
_LEARNED: WeakKeyDictionary[Source, dict[CaptionTokenizer.Config, CaptionTokenizer]] = WeakKeyDictionary()


def train_run(
    loaded: Loaded,
    folder: Path,
    ranks: Ranks | None = None,
    start: Start | None = None,
    until: int | None = None,
    measured: Sequence[str] = ALL_QUICK,
) -> tuple[Model, TrainResult]:
    """Train the model of a recipe, from scratch, from `start` or from the newest checkpoint in `folder`, which receives
    metrics and checkpoints; as far as step `until` where it is given. `measured` names the evaluations on the way."""
    loaded = with_steps(loaded)
    run, ranks = loaded.run, ranks or Ranks()
    device = device_of_rank(run.training.torch_device(), ranks)
    source = run.training_pairs()
    require_agreement(ranks, lambda: data_facts("training", source))
    checkpoints = ranks.on_main(lambda: step_folders(folder))
    ranks.on_main(lambda: record_captions(folder, source, run.keep.folder, resumed=bool(checkpoints)))
    torch.manual_seed(run.seed)
    tokens = ranks.on_main(lambda: _tokens(run, source, start, checkpoints))
    require_room(lambda: build_model(run, tokens))
    if has_features(source):  # which has no other record in store for a bad one
        source = readable(source, tokens)
    model = _model(run, tokens, source, start, is_new=not checkpoints)
    batches = _batches(run, model, source, device, ranks)
    validation = run.data.build("validation")
    require_agreement(ranks, lambda: {**data_facts("validation", validation), **model_facts(model)})
    _require_metric(run.training.best, validation_metrics(validation))
    if checkpoints:
        ranks.print(f"Going on from {checkpoints[-1]}")
    ranks.on_main(lambda: _begin(folder, loaded, None if checkpoints else start))
    outcome = train(
        model,
        run.objective,
        batches,
        run.training,
        folder=folder,
        config=dump(loaded.table),
        evaluate=lambda model: validate(model, validation, run.evaluation, measured),
        resume=bool(checkpoints),
        ranks=ranks,
        until=until,
    )
    return model, outcome


def _tokens(run: Run, source: Source, start: Start | None, checkpoints: Sequence[Path]) -> CaptionTokenizer:
    """The tokenizer of the newest checkpoint, of the model to start from, or a new one."""
    if checkpoints:
        return read_parts(checkpoints[-1])[0]
    return start.model.tokens if start else _new_tokens(run, source)


def _model(run: Run, tokens: CaptionTokenizer, source: Source, start: Start | None, is_new: bool) -> Model:
    """The model as its first step finds it; a checkpoint's weights come later, so nothing is measured for them."""
    model = build_model(run, tokens)
    require_compatible(model, source)
    if start:
        start.begin(model, run)
        set_temperature(model, run.finetuning.tau)
    elif is_new:
        model.load_pretrained()
        if model.shift is not None:
            model.shift.require_measured()
        _scale_codes(model, run, source)
        if isinstance(model, ModalModel) and has_modalities(source):
            model.measure(source)
    run.lora.put_into(model)
    named(model, run.training.trains)  # raises UserError for an unknown part before anything is made
    return model


def _batches(run: Run, model: Model, source: Source, device: torch.device, ranks: Ranks) -> Batches:
    return Batches(
        source,
        model.tokens,
        run.preprocess,
        batch_size=run.training.batch_size,
        seed=run.seed,
        device=device,
        share=ranks.share,
        workers=run.training.workers,
        timeout=run.training.loader_timeout,
        views=run.objective.views,
        augment=run.augment,
        plain=run.training.probe.plain_steps_of(run.training.steps),
    )


def _scale_codes(model: Model, run: Run, source: Source) -> None:
    """Find the scale of a code book that names a share of active codes, on samples that every process has."""
    if getattr(run.readout, "active", 0):
        count = min(SAMPLES, run.training.batch_size, len(source))
        batches = Batches(source, model.tokens, run.preprocess, batch_size=count, seed=run.seed)
        set_code_scale(model, batches.batch(0))


def _begin(folder: Path, loaded: Loaded, start: Start | None) -> None:
    (folder / REPORT).unlink(missing_ok=True)  # of a shorter run that is trained on
    write_text(folder / CONFIG, dump(loaded.table))
    renew_digest(folder, CONFIG)  # of a finished run that is trained on
    if start:
        start.save(folder)


def _require_metric(name: str, known: Sequence[str]) -> None:
    """Raises UserError for an unknown metric before training: it must not cost the steps up to the first evaluation."""
    if name not in known:
        raise UserError(f'training.best = "{name}" is not a metric of the validation data; choose {", ".join(known)}')


def _new_tokens(run: Run, source: Source) -> CaptionTokenizer:
    """What the recipe asks for, learned once where several runs of a process train on one source, as in a sweep."""
    config, known = run.caption_tokens(), _LEARNED.setdefault(source, {})
    if config not in known:
        known[config] = _learned(config, source)
    return copy(known[config])  # whose count of captions that were cut is the run's own


def _learned(config: CaptionTokenizer.Config, source: Source) -> CaptionTokenizer:
    captions = (caption for index in range(len(source)) for caption in source.pair(index).captions)
    return CaptionTokenizer.from_config(config, islice(captions, CAPTIONS_FOR_TOKENS))
