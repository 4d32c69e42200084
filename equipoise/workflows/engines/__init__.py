"""Who writes the numbered files of a job: this process, several of this machine, or those of a Ray cluster.

A job is a function without arguments that opens its model and its data and returns a `PartWriter`. It is sent to every
process, which calls it once and then writes the files it is given. A file appears under its name only when it is whole,
and one that exists is never written again: that is all there is to resuming, whatever was lost. The bytes are those of
one process with as many threads on the same kind of machine.
"""

from __future__ import annotations

from equipoise.workflows.engines.engine import ENGINES, Engine, Job, write_parts

__all__ = ["ENGINES", "Engine", "Job", "write_parts"]
