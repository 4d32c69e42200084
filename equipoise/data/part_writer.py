"""Work on many records whose results are numbered files, any of which can be written by itself.

writer = PartWriter(NumberedFiles(folder, len(source), 10_000), fill, batch_size, bad)
writer.write_missing("embedding")     # all of them, here
writer.write(3)                       # that one, wherever this is (`workflows/engines`)
"""

from __future__ import annotations

from dataclasses import dataclass

from equipoise.data.bad_records import BadRecordCount
from equipoise.io.resumable import Fill, NumberedFiles


@dataclass(frozen=True)
class PartWriter:
    """All that one process needs to write any of the files: `fill` has the model and the data at hand."""

    files: NumberedFiles
    fill: Fill
    batch_size: int
    bad: BadRecordCount  # which `fill` counts in

    def write_missing(self, doing: str) -> None:
        """Write the files that are not there yet."""
        self.files.write_missing(self.fill, self.batch_size, doing)

    def write(self, number: int) -> None:
        """Write one file, unless it is there."""
        self.files.write(number, self.fill, self.batch_size)
