"""What every encoder answers: `width`, `prepare` (from what people give to what `forward` reads), and `forward`, which
gives `Features`; told `classes_only`, it may leave out those of tokens, where that saves work.

Most read pictures or words, prepared by the preprocessing and the tokenizer that travel with the model; an encoder that
reads something else says so in `reads` and prepares its input itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from torch import Tensor, nn

from equipoise.data.preprocess import Preprocess
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import Features, UserError

Prompts = Callable[[], Sequence[Tensor]]  # learned tokens [n, w], one set for each of the first blocks


class Encoder(nn.Module):
    width: int

    def blocks(self) -> Iterable[nn.Module]:
        """The large parts that follow each other, each of which can be kept in slices by itself."""
        return ()

    def load_pretrained(self) -> None:
        """Start from weights trained elsewhere, where the settings ask for them."""

    def recompute_activations(self, wanted: bool) -> None:
        """Trade time for memory in training, where the encoder can."""
        if wanted:
            raise UserError(f"{type(self).__name__} cannot recompute activations; set recompute_activations to false")


class ImageEncoder(Encoder):
    reads: ClassVar[str] = "pictures"
    expects: tuple[tuple[float, ...], tuple[float, ...]] | None = (
        None  # mean and std that its weights were trained with
    )

    def prepare(self, images: Any, preprocess: Preprocess) -> Tensor:
        return preprocess.for_evaluation(images)


@runtime_checkable
class HasRear(Protocol):
    """An image encoder whose last part can also read tokens that are no part of a picture
    (`models/region_branch.py`)."""

    width: int

    def check_rear(self, blocks: int) -> None:
        """Refuse, in a sentence, a number of blocks that it cannot pass them through."""

    def rear_norm(self) -> nn.Module:
        """What such tokens pass and pictures do not; it belongs to whoever brings them."""

    def rear(self, tokens: Tensor, mask: Tensor, blocks: int, norm: nn.Module, classes_only: bool = False) -> Features:
        """Tokens [N, L, w] and which of them are real [N, L], through `norm` and the last part."""


@runtime_checkable
class TakesPrompts(Protocol):
    """An encoder whose blocks can be given learned tokens (`models/prompts.py`)."""

    width: int
    prompts: Prompts | None

    def blocks(self) -> nn.ModuleList: ...


class TextEncoder(Encoder):
    reads: ClassVar[str] = "words"

    def prepare(self, texts: Any, mask: Tensor | None, tokens: CaptionTokenizer) -> tuple[Tensor, Tensor]:
        """What is given to `encode_text`, a mask where it has one, to what `forward` reads."""
        return tokens(texts)


def require_single(name: str, classes: int) -> None:
    """For an encoder that reads one vector out of a sample, refuse what wants several."""
    if classes > 1:
        raise UserError(
            f"{name} gives one class token, but {classes} are wanted; choose a vit-... and a bert-... tower, "
            "or set readout.name to class_token"
        )


def mean_of_real(tokens: Tensor, mask: Tensor) -> Tensor:
    """The mean of the real tokens [N, 1, w]."""
    real = mask[..., None].to(tokens.dtype)
    return (tokens * real).sum(dim=1, keepdim=True) / real.sum(dim=1, keepdim=True)
