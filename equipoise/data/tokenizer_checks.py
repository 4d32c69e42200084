"""What every caption must be before it is cut into tokens: text, whole characters, not empty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from equipoise.types import UserError


def caption_name(place: int, keys: Sequence[str] | None) -> str:
    """What a caption is called in errors."""
    return f"The caption of {keys[place]}" if keys else f"Caption {place}"


def checked_captions(captions: Iterable[str]) -> Iterator[str]:
    for place, caption in enumerate(captions):
        check_caption(caption, f"Caption {place}")
        yield caption


def check_caption(caption: object, name: str) -> None:
    check_text(caption, name)
    if not str(caption).strip():
        raise UserError(f"{name} is empty; give it one or leave the pair out.")


def check_text(caption: object, name: str) -> None:
    if not isinstance(caption, str):
        raise UserError(f"{name} is {caption!r}, which is not text; give it a caption or leave the pair out.")
    try:
        caption.encode()
    except UnicodeEncodeError:
        raise UserError(f"{name} ({caption[:40]!r}...) holds half a character; mend its encoding.") from None
