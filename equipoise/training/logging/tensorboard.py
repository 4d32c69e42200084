"""Scalars for TensorBoard, by torch's SummaryWriter.

SummaryWriter writes from a thread of its own. On a full disk that thread hands its error to whoever writes next, and
prints a traceback besides; `_SilentThread` keeps that back, so that the user reads one sentence.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

NEVER = 10**9  # seconds; every record is flushed when it is written
LEAVING = 10.0  # seconds that a thread which has failed may take to end


class TensorBoardWriter:
    """Writes scalars by step. Raises ImportError where tensorboard is not installed, OSError on a full disk.

    A run that goes on after `step` hides what an earlier file in the folder showed beyond it.
    """

    def __init__(self, folder: Path, step: int = 0):
        from torch.utils.tensorboard import SummaryWriter

        self._thread = _SilentThread()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._writer = SummaryWriter(str(folder), purge_step=step + 1 if step else None, flush_secs=NEVER)
        except BaseException:
            self._thread.ended()
            raise

    def write(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        try:
            self._writer.close()
        finally:
            self._thread.ended()


class _SilentThread:
    """From its making until `ended`, threads of tensorboard that fail for want of space print nothing."""

    def __init__(self) -> None:
        self._others, self._former = set(threading.enumerate()), threading.excepthook
        threading.excepthook = self._hook

    def ended(self) -> None:
        """Wait for threads started meanwhile, which are done or have failed, and print as before."""
        for thread in set(threading.enumerate()) - self._others:
            if _is_tensorboards(thread):
                thread.join(LEAVING)
        if threading.excepthook == self._hook:  # else another was set since, which calls this one
            threading.excepthook = self._former

    def _hook(self, args: threading.ExceptHookArgs) -> None:
        if not (_is_tensorboards(args.thread) and isinstance(args.exc_value, OSError)):
            self._former(args)


def _is_tensorboards(thread: threading.Thread | None) -> bool:
    return type(thread).__module__.startswith("tensorboard.")
