"""TensorBoard's event file, written line by line as `metrics.jsonl` is.

torch's SummaryWriter writes from a thread of its own; on a full disk that thread prints a traceback before anyone can
say a sentence. The format is older than both and needs only tensorboard's message types and its record writer.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FORMAT = "brain.Event:2"  # what TensorBoard looks for in the first event


class TensorBoardWriter:
    """Scalars by step. Needs tensorboard; ImportError where that is not installed.

    A file that goes on after `step` takes back what an earlier one in the folder showed beyond it.
    """

    def __init__(self, folder: Path, step: int = 0):
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._summary = Event, Summary
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self._stream = (folder / name).open("xb")
        self._records = RecordWriter(self._stream)
        self._write(file_version=FORMAT)
        if step:
            self._write(step=step + 1, session_log=SessionLog(status=SessionLog.START))

    def write(self, step: int, values: Mapping[str, float]) -> None:
        scalars = [self._summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._write(step=step, summary=self._summary(value=scalars))

    def close(self) -> None:
        self._stream.close()

    def _write(self, **parts: Any) -> None:
        self._records.write(self._event(wall_time=time.time(), **parts).SerializeToString())
        self._stream.flush()
