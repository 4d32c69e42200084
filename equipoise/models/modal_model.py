"""The model of named modalities: an encoder for each, one for all together, and what they share.

    modality m --standardise, encoder_m-->            code [N, c] --shared map, space.project--> point [N, d]   role m
    all        --standardise, joint encoder-->        code [N, c] --shared map, space.project--> point [N, d]   `joint`
    point of all --label head-->                      scores [N, outputs]                                       `scores`

Poklukar et al. 2022, "Geometric Multimodal Contrastive Representation Learning" (GMC), §3: one shared map for all.

It is a `Model` to training, checkpoints and folders; it reads modalities where that one reads pictures and words, and
whoever asks for a tower of images or texts is told so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from equipoise.data.preprocess import Preprocess
from equipoise.data.source import HAS_MODALITY, MODALITY, MODALITY_MASK, ModalSource
from equipoise.data.tokenizer import CaptionTokenizer, NoTokenizer
from equipoise.encoders.encoder import Encoder
from equipoise.encoders.sequences import ResidualHead
from equipoise.models.base import AlignedModel, evaluating
from equipoise.models.logit_scale import LogitScale
from equipoise.models.modalities import NamedModalities
from equipoise.models.model import Model
from equipoise.models.standardise import Standardise
from equipoise.models.tower import widened
from equipoise.spaces import Space
from equipoise.types import EVERY_MODALITY, JOINT, SCORES, Batch, Embeddings, UserError

# of reading a subset of modalities: by the mean of their codes (the joint code where they are all); by the joint
# encoder, to which the others are not there; or by the joint encoder with zeros for the others
WAYS = ("codes", "joint", "zeroed")
PAIR_PARTS = frozenset({"image_encoder", "text_encoder", "image_readout", "text_readout"})
MEASURED = 100_000  # samples that means and deviations are taken from, at most

Inputs = Mapping[str, tuple[Tensor, Tensor]]  # values [N, w] or [N, L, w], and which are real, [N] or [N, L]


class ModalModel(Model):
    def __init__(
        self,
        modalities: NamedModalities,
        *,
        space: Space,
        temperature: LogitScale,
        preprocess: Preprocess,
        tokens: CaptionTokenizer,
        bias: float | None = None,
    ):
        AlignedModel.__init__(self, space, temperature, preprocess, tokens, bias)  # Model's own makes towers
        self.settings = modalities
        shapes = {name: one.shape for name, one in modalities.inputs.items()}
        self.standard = nn.ModuleDict({f"of_{name}": Standardise(shape.width) for name, shape in shapes.items()})
        # prefixed: a module may not be called as a method of ModuleDict is
        self.encoders_by_name = nn.ModuleDict(
            {f"of_{name}": one.encoder.build(one.shape, modalities.code) for name, one in modalities.inputs.items()}
        )
        self.joint = modalities.joint.build(shapes, modalities.code)
        self.to_space = nn.Linear(modalities.code, space.dim)
        self.label_head = (
            ResidualHead(space.dim, modalities.outputs, modalities.dropout) if modalities.outputs else None
        )
        self.shared = self.regions = self.shift = self.prompts = None
        self.heads = nn.ModuleDict()

    def __getattr__(self, name: str) -> Any:
        if name in PAIR_PARTS:
            raise UserError(
                f"this model reads {', '.join(self.modalities)}, and no pictures with texts; use train, eval, embed, "
                "index, search, probe or model.encode, which read modalities"
            )
        return super().__getattr__(name)

    @property
    def modalities(self) -> tuple[str, ...]:
        return self.settings.names

    def encoders(self) -> list[Encoder]:
        return [one for one in (*self.encoders_by_name.values(), self.joint) if isinstance(one, Encoder)]

    @property
    def leaves_unused(self) -> bool:
        return True  # an objective may look at the joint code alone

    def load_pretrained(self) -> None:
        """Do nothing: modalities have no pretrained encoders."""

    def forward(self, batch: Batch, needs: Sequence[str] = (EVERY_MODALITY, JOINT)) -> Embeddings:
        wanted = [role for need in needs for role in (self.modalities if need == EVERY_MODALITY else (need,))]
        if unknown := set(wanted) - {*self.modalities, JOINT, *((SCORES,) if self.label_head else ())}:
            raise UserError(
                f"this model cannot produce {', '.join(sorted(unknown))}, which the objective needs; it has "
                f"{', '.join((*self.modalities, JOINT))}, and {SCORES} where modalities.outputs is above 0"
            )
        inputs = self.inputs_of(batch)
        made = {name: self._code(name, inputs) for name in self.modalities if name in wanted}
        if JOINT in wanted or SCORES in wanted:
            made[JOINT] = self._joint(inputs)
        if SCORES in wanted:
            assert self.label_head is not None
            made[SCORES] = widened(self.label_head(made[JOINT]))
        return Embeddings.of({role: made[role] for role in dict.fromkeys(wanted)})

    def inputs_of(self, batch: Batch) -> dict[str, tuple[Tensor, Tensor]]:
        """The model's modalities out of a batch's side data, standardised."""
        return {name: self._standard(name, *raw_input(batch, name)) for name in self.modalities}

    def _standard(self, name: str, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        module = self.standard[f"of_{name}"]
        return module(values, mask), mask

    def _code(self, name: str, inputs: Inputs) -> Tensor:
        return self._point(self.encoders_by_name[f"of_{name}"](*inputs[name]))

    def _joint(self, inputs: Inputs) -> Tensor:
        return self._point(self.joint(inputs))

    def _point(self, codes: Tensor) -> Tensor:
        return self.space.project(widened(self.to_space(codes)))

    @torch.no_grad()
    def measure(self, source: ModalSource) -> None:
        """Take the modalities' means and deviations from the training samples."""
        if not self.settings.standardise:
            return
        batch = source.batch(range(min(MEASURED, len(source))), (), NoTokenizer())
        for name in self.modalities:
            (values, mask), module = raw_input(batch, name), self.standard[f"of_{name}"]
            assert isinstance(module, Standardise)
            module.measure(values[mask])

    @torch.no_grad()
    def encode(self, inputs: Mapping[str, Any], batch_size: int = 1024, way: str = "codes") -> Tensor:
        """Points [N, d] of some or all modalities, {"audio": values, "video": (values, mask)}: arrays [N, w] or
        [N, L, w], a mask bool [N] or [N, L] where not all is real. One modality: its own point; several: the mean of
        theirs, back on the space; all: the joint point. `way` "joint" reads the subset by the joint encoder, "zeroed"
        by the joint encoder with zeros for the rest."""
        return self.space.project(self.codes(inputs, batch_size, way))

    @torch.no_grad()
    def codes(self, inputs: Mapping[str, Any], batch_size: int = 1024, way: str = "codes") -> Tensor:
        """As `encode`, but a mean of several points as it is: that is what the label is told from."""
        given = self._given(inputs, way)
        count = len(next(iter(given.values()))[0])
        parts = [self.subset(_rows(given, slice(i, i + batch_size)), way) for i in range(0, count, batch_size)]
        return torch.cat(parts) if parts else torch.empty(0, self.space.dim, device=self.device)

    @torch.no_grad()
    def subset(self, inputs: Inputs, way: str) -> Tensor:
        """As `codes`, of inputs that need no checks; a sample that has none of them gets a row that means nothing."""
        with evaluating(self):
            return self._encode_modalities(inputs, way)

    @torch.no_grad()
    def predict(self, codes: Tensor) -> Tensor:
        """Scores [N, outputs] of the label, of `codes`."""
        if self.label_head is None:
            raise UserError("this model tells no labels: modalities.outputs is 0")
        with evaluating(self):
            return widened(self._scores(codes.to(self.device)))

    def _scores(self, codes: Tensor) -> Tensor:
        assert self.label_head is not None
        scores: Tensor = self.label_head(codes)
        return scores

    def _encode_modalities(self, inputs: Inputs, way: str) -> Tensor:
        """Codes [N, d]; a method, so that a sharded model gathers its weights for it."""
        moved = {name: tuple(part.to(self.device) for part in one) for name, one in inputs.items()}
        read = {name: self._standard(name, *one) for name, one in moved.items()}
        if way == "zeroed":
            read = {name: read[name] if name in read else self._zeros(name, read) for name in self.modalities}
        if way != "codes" or set(read) == set(self.modalities):
            return self._joint(read)
        points = torch.stack([self._code(name, read) for name in read])  # [k, N, d]
        there = torch.stack([_present(mask) for _, mask in read.values()]).to(points.dtype)[..., None]
        return (points * there).sum(0) / there.sum(0).clamp(min=1)

    def _zeros(self, name: str, read: Inputs) -> tuple[Tensor, Tensor]:
        """A modality of zeros, which is its mean, in all its steps."""
        values, shape = next(iter(read.values()))[0], self.settings.inputs[name].shape
        zeros = values.new_zeros(len(values), shape.length, shape.width)
        return zeros, torch.ones(zeros.shape[:2], dtype=torch.bool, device=zeros.device)

    def _given(self, inputs: Mapping[str, Any], way: str) -> dict[str, tuple[Tensor, Tensor]]:
        """What a caller gave, as tensors with masks; raises UserError for what cannot be read."""
        if way not in WAYS:
            raise UserError(f"way must be one of {', '.join(WAYS)}, not {way!r}")
        if not isinstance(inputs, Mapping):
            raise UserError(
                f"inputs are {type(inputs).__name__}; give arrays by the names of the modalities, "
                f'{{"{self.modalities[0]}": values}}'
            )
        unknown = set(map(str, inputs)) - set(self.modalities)
        if unknown or not inputs:
            raise UserError(
                f"this model reads {', '.join(self.modalities)}, not {', '.join(sorted(unknown)) or 'nothing'}; give "
                "some of its modalities by name"
            )
        found = {name: self._checked(name, inputs[name]) for name in self.modalities if name in inputs}
        counts = {len(values) for values, _ in found.values()}
        if len(counts) > 1:
            raise UserError(f"modalities have different numbers of samples: {sorted(counts)}; give each sample of all")
        nobody = ~torch.stack([_present(mask) for _, mask in found.values()]).any(0)
        if bool(nobody.any()):
            raise UserError(f"sample {int(nobody.long().argmax())} has none of {', '.join(found)}; leave it out")
        return found

    def _checked(self, name: str, given: Any) -> tuple[Tensor, Tensor]:
        if isinstance(given, tuple) and len(given) != 2:
            raise UserError(f"{name} is a tuple of {len(given)}; give an array, or an array and its mask")
        values, mask = given if isinstance(given, tuple) else (given, None)
        width = self.settings.inputs[name].width
        values = _numbers(values, name)
        if not isinstance(values, Tensor) or values.ndim not in (2, 3) or values.shape[-1] != width:
            shape = list(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise UserError(f"{name} is {shape}; give an array [N, {width}] or [N, L, {width}]")
        real = (
            torch.ones(values.shape[:-1], dtype=torch.bool) if mask is None else _numbers(mask, f"the mask of {name}")
        )
        if not isinstance(real, Tensor) or real.shape != values.shape[:-1]:
            shape = list(real.shape) if isinstance(real, Tensor) else type(real).__name__
            raise UserError(f"the mask of {name} has the shape {shape}; give {list(values.shape[:-1])}")
        values, real = values.float(), real.bool()
        if not bool((values.isfinite().all(-1) | ~real.to(values.device)).all()):
            raise UserError(f"{name} holds numbers that are not finite; mask them, or compute them again")
        return values, real

    def described(self) -> tuple[str, str]:
        given = ", ".join(f'"{name}": {name}' for name in self.modalities)
        kind = f"model of {len(self.modalities)} modalities ({', '.join(self.modalities)})"
        return kind, f"points = model.encode({{{given}}})  # arrays [N, w] or [N, L, w]; any of them may be left out"


def raw_input(batch: Batch, name: str) -> tuple[Tensor, Tensor]:
    """A modality of a batch as it was measured, and which of it is real."""
    values = batch.side.get(f"{MODALITY}{name}")
    if values is None:
        raise UserError(f"the data has no modality {name}, which the model reads; change modalities.inputs or the data")
    mask = batch.side.get(f"{MODALITY_MASK}{name}")
    return values, batch.side[f"{HAS_MODALITY}{name}"] if mask is None else mask


def _numbers(given: Any, what: str) -> Any:
    """Arrays and lists as tensors, copied: numpy's may be read backwards, or in another byte order; others as given."""
    try:
        given = np.array(given) if isinstance(given, list) else given
    except ValueError:
        raise UserError(f"{what} is a list of rows of different lengths; pad them, and give a mask") from None
    kind = given.dtype.kind if isinstance(given, np.ndarray) else "c" if _is_complex(given) else "f"
    if kind not in "biuf":
        raise UserError(f"{what} holds {given.dtype}, which are no numbers that it reads; give floats")
    if not isinstance(given, np.ndarray):
        return given
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is told as such
        return torch.from_numpy(given.astype(bool if kind == "b" else np.float32))


def _is_complex(given: Any) -> bool:
    return isinstance(given, Tensor) and given.is_complex()


def _present(mask: Tensor) -> Tensor:
    """Which samples have something real [N]."""
    return mask if mask.ndim == 1 else mask.any(1)


def _rows(inputs: Inputs, rows: slice) -> dict[str, tuple[Tensor, Tensor]]:
    return {name: (values[rows], mask[rows]) for name, (values, mask) in inputs.items()}


def subset_inputs(batch: Batch, names: Iterable[str]) -> dict[str, tuple[Tensor, Tensor]]:
    """Some modalities of a batch, as `encode` reads them."""
    return {name: raw_input(batch, name) for name in names}
