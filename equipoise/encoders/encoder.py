"""The interface of encoders: `width`, `prepare` (from user input to the input of `forward`), and `forward`, which
returns `Features`; with `classes_only` it may leave out token features, where that saves work.

Most read pictures or words, prepared by the model's preprocessing and tokenizer; an encoder that reads something else
says so in `reads` and prepares its input itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from torch import Tensor, nn

from equipoise.data.preprocess import Preprocess
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.encoders.recomputation import Recompute
from equipoise.types import Features, Lengths, UserError

PromptTokens = Callable[[], Sequence[Tensor]]  # learned tokens [n, w], one set for each of the first blocks


class Encoder(nn.Module):
    """Base of all encoders."""

    width: int

    def blocks(self) -> Iterable[nn.Module]:
        """Large submodules in their order, each of which FSDP may shard as a unit."""
        return ()

    def load_pretrained(self) -> None:
        """Load pretrained weights, where the settings name some."""

    def recompute_activations(self, wanted: Recompute) -> None:
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

    def normed(self, tokens: Tensor) -> Tensor:
        """Token features through the norm that class features have passed, where only those have."""
        return tokens


@runtime_checkable
class HasRear(Protocol):
    """An image encoder whose last part can also read tokens that are no part of a picture
    (`models/region_branch.py`)."""

    width: int

    def check_rear(self, blocks: int) -> None:
        """Raise UserError for a number of last blocks that the encoder does not have."""

    def rear_norm(self) -> nn.Module:
        """Make the norm that such tokens pass and pictures do not; the caller owns it."""

    def rear(
        self,
        tokens: Tensor,
        mask: Tensor,
        blocks: int,
        norm: nn.Module,
        classes_only: bool = False,
        lengths: Lengths | None = None,
    ) -> Features:
        """Features of tokens [N, L, w] with a mask [N, L], through `norm` and the last `blocks`; `lengths` are those of
        the mask, where known."""


@runtime_checkable
class TakesPrompts(Protocol):
    """An encoder whose blocks can be given learned tokens (`models/prompts.py`)."""

    width: int
    prompts: PromptTokens | None

    def blocks(self) -> nn.ModuleList: ...


@runtime_checkable
class Continues(Protocol):
    """A causal text encoder that reads texts as they grow (`models/captioning/`)."""

    context: int

    def continued(self, ids: Tensor, past: Any) -> Tensor:
        """Features [N, n, w] of words that follow those of `past`, a `KeyValueCache`."""


class TextEncoder(Encoder):
    reads: ClassVar[str] = "words"
    causal: bool = False  # a word's features depend on no later word
    takes_lengths: ClassVar[bool] = False  # `forward` may be given the `Lengths` of the texts

    def prepare(self, texts: Any, mask: Tensor | None, tokenizer: CaptionTokenizer) -> tuple[Tensor, Tensor]:
        """Token ids and mask, as `forward` reads them, of the input of `encode_text`."""
        return tokenizer(texts)


def require_single(name: str, classes: int) -> None:
    """Raise UserError where a readout needs several class tokens of an encoder that has one."""
    if classes > 1:
        raise UserError(
            f"{name} gives one class token, but {classes} are wanted; choose a vit-... and a bert-... tower, "
            "or set readout.name to class_token"
        )


def mean_of_real(tokens: Tensor, mask: Tensor) -> Tensor:
    """Mean over the real tokens [N, 1, w]."""
    real = mask[..., None].to(tokens.dtype)
    return (tokens * real).sum(dim=1, keepdim=True) / real.sum(dim=1, keepdim=True)
