"""Standard output and error that never end the work: whoever reads them may have left, or may read no more than ASCII.

- closed (`>&-`): what is printed is dropped, and no file that is opened later takes the stream's place;
- a pipe whose reader has left (`| head`): likewise, from then on;
- an encoding without a sign that is printed: the sign is escaped.

A full disk behind `>` is an error as any other.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

STANDARD = 2  # the highest number of a standard stream


def prepare_streams() -> None:
    """Prepare the streams of this process."""
    _occupy_closed()
    sys.stdout, sys.stderr = map(_prepared, (sys.stdout, sys.stderr))


def _occupy_closed() -> None:
    number = os.open(os.devnull, os.O_RDWR)
    while number <= STANDARD:
        number = os.open(os.devnull, os.O_RDWR)
    os.close(number)


def _prepared(stream: Any) -> Any:
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    if not isinstance(getattr(stream, "buffer", None), io.BufferedWriter | io.FileIO):
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Lasting(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


class _Lasting(io.FileIO):
    """A file that goes on as the null device once nobody reads it."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
            return len(memoryview(data).cast("B"))
