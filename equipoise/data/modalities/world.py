"""The source `modal_worlds`: samples of several modalities whose truth is known, made up from a seed.

    s ~ N(0, I)  shared by all modalities      p_m ~ N(0, I)  private to one      e ~ N(0, I)  noise of every step

    x_m,t = knows_m A_m s + private_m B_m p_m + noise_m e_m,t          y = s_1

x [L, w] a sequence of 1 to L steps; A_m, B_m [w, shared], [w, private] of orthonormal columns, drawn from the seed. The
label is y, or which of `classes` equally likely parts of the line it lies in. All is Gaussian, so the best that anyone
can tell from a subset of modalities has a closed form (`best_correlation`, `best_accuracy`): A and B together are
orthonormal where width allows it, so modality m of ℓ steps shows each shared direction with variance noise²/ℓ, and
precisions add up:

    r² = 1 - 1/(1 + Σ_m knows_m² ℓ_m / noise_m²)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.data.modalities.modality import Modality
from equipoise.data.modalities.samples import Labels, ModalSamples
from equipoise.data.rng import generator
from equipoise.data.splits import require_split
from equipoise.settings.bounds import bounded
from equipoise.types import UserError

GRID = 8001  # points of the integral over what can be told


class ModalWorlds:
    @dataclass(frozen=True)
    class Config:
        seed: int = 0  # of everything
        modalities: tuple[str, ...] = ("text", "audio", "video")  # their names
        knows: tuple[float, ...] = bounded((1.0, 0.6, 0.4), 0, 1e3)  # of the shared latents, for each modality
        private: tuple[float, ...] = bounded((1.0, 1.0, 1.0), 0, 1e3)  # how strong its private latents are
        noise: tuple[float, ...] = bounded((1.0, 1.0, 1.0), 1e-3, 1e3)  # of every step, for each modality
        shared_latents: int = bounded(4, 1, 64)  # numbers that all modalities know
        private_latents: int = bounded(4, 0, 64)  # numbers of each modality alone
        width: int = bounded(16, 2, 1024)  # of each modality
        length: int = bounded(8, 0, 4096)  # steps at most; 0: vectors
        classes: int = bounded(2, 0, 1000)  # 0: the label is a number
        missing: float = bounded(0.0, 0, 0.9)  # chance that a training sample lacks a modality; never all of them
        train_size: int = bounded(2000, 2, 10**7)  # samples for training
        validation_size: int = bounded(500, 2, 10**7)  # for validation
        test_size: int = bounded(1000, 2, 10**7)  # for the test

        def __post_init__(self) -> None:
            for name in ("knows", "private", "noise"):
                if len(getattr(self, name)) != len(self.modalities):
                    raise UserError(
                        f"data.{name} has {len(getattr(self, name))} numbers for the {len(self.modalities)} modalities "
                        f"{', '.join(self.modalities)}; give one for each"
                    )
            if len(set(self.modalities)) < len(self.modalities):
                raise UserError(
                    f"data.modalities names one twice: {', '.join(self.modalities)}; give each its own name"
                )
            if self.shared_latents + self.private_latents > self.width:
                raise UserError("data.width must be at least data.shared_latents + data.private_latents; raise it")
            if self.classes == 1:
                raise UserError(
                    "data.classes is 1, so there is nothing to tell apart; give 2 or more, or 0 for a number"
                )

        def build(self, split: str) -> ModalSamples:
            require_split(split)
            size = getattr(self, f"{split}_size")
            shared = torch.randn(size, self.shared_latents, generator=self._chance(split, "shared"))
            has = self._has(split, size)
            parts = {name: self._modality(name, split, shared, has[name]) for name in self.modalities}
            keys = [f"{split}-{number:06d}" for number in range(size)]
            return ModalSamples(keys, parts, self._labels(shared[:, 0]), f"the world of {split}")

        def best_correlation(self, subset: Sequence[str], lengths: Sequence[Tensor] | None = None) -> Tensor:
            """The largest correlation with y that can be told from these modalities, by their lengths [N]."""
            told: Tensor = torch.zeros(())
            for place, name in enumerate(subset):
                number = self.modalities.index(name)
                steps = lengths[place].double() if lengths else torch.tensor(float(self.length or 1))
                told = told + self.knows[number] ** 2 * steps / self.noise[number] ** 2
            return (told / (1 + told)).sqrt()

        def best_accuracy(self, subset: Sequence[str], samples: ModalSamples) -> float:
            """The largest accuracy that can be expected of anyone who sees these modalities of the samples."""
            masks = [samples.parts[name].mask for name in subset]
            ones = torch.ones(len(samples))
            correlations = self.best_correlation(subset, [ones if m is None else m.sum(1) for m in masks])
            known, counts = correlations.double().unique(return_counts=True)
            each = torch.stack([_accuracy(r, self._edges()) for r in known])
            return float((each * counts).sum() / counts.sum())

        def _edges(self) -> Tensor:
            """Where the parts of the line begin and end [classes + 1]."""
            return torch.special.ndtri(torch.linspace(0, 1, self.classes + 1, dtype=torch.float64))

        def _labels(self, y: Tensor) -> Labels:
            if not self.classes:
                return Labels(y)
            return Labels(torch.bucketize(y.double(), self._edges()[1:-1]), tuple(map(str, range(self.classes))))

        def _modality(self, name: str, split: str, shared: Tensor, has: Tensor) -> Modality:
            number, size = self.modalities.index(name), len(shared)
            knows, private, noise = self.knows[number], self.private[number], self.noise[number]
            frame = torch.randn(self.width, self.width, generator=generator(self.seed, "frame", name)).double()
            maps = torch.linalg.qr(frame).Q.float()[:, : self.shared_latents + self.private_latents]
            own = torch.randn(size, self.private_latents, generator=self._chance(split, f"private {name}"))
            signal = torch.cat([knows * shared, private * own], 1) @ maps.T
            chance = self._chance(split, f"noise {name}")
            if not self.length:
                return Modality(signal + noise * torch.randn(size, self.width, generator=chance), None, has)
            steps = torch.randint(1, self.length + 1, (size,), generator=self._chance(split, f"length {name}"))
            mask = torch.arange(self.length) < steps[:, None]
            values = signal[:, None] + noise * torch.randn(size, self.length, self.width, generator=chance)
            return Modality(values, mask, has)

        def _has(self, split: str, size: int) -> dict[str, Tensor]:
            """Which samples have which modality; of one that would have none, the first."""
            draws = torch.rand(size, len(self.modalities), generator=self._chance(split, "missing"))
            has = draws >= (self.missing if split == "train" else 0.0)
            has[:, 0] |= ~has.any(dim=1)
            return {name: has[:, place] for place, name in enumerate(self.modalities)}

        def _chance(self, split: str, what: str) -> torch.Generator:
            return generator(self.seed, f"modal world {split}", what)


def _accuracy(r: Tensor, edges: Tensor) -> Tensor:
    """∫ max_k P(y in part k | μ) dμ, where y ~ N(μ, 1 - r²) and μ ~ N(0, r²)."""
    parts = len(edges) - 1
    if parts < 2:
        raise UserError("a world of numbers has no accuracy; set data.classes")
    if float(r) == 0.0:
        return torch.tensor(1 / parts, dtype=torch.float64)
    grid = torch.linspace(-8, 8, GRID, dtype=torch.float64)
    density = torch.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi)
    inside = torch.special.ndtr((edges - r * grid[:, None]) / (1 - r**2).sqrt().clamp(min=1e-12)).diff(dim=1)
    return torch.trapezoid(density * inside.max(dim=1).values, grid)
