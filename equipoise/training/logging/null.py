"""What a rank that does not speak has in the place of the log and of the progress bar."""

from __future__ import annotations

from typing import Any


class NullLogger:
    def __init__(self) -> None:
        self.records: list[dict[str, float]] = []

    def __enter__(self) -> NullLogger:
        return self

    def __exit__(self, *_: object) -> None: ...

    def write(self, *_: Any) -> None: ...

    def sync(self) -> None: ...

    def update(self, *_: Any, **__: Any) -> None: ...

    def note(self, _: str) -> None: ...
