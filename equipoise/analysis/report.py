"""What an experiment of the laboratory leaves: a sentence, its numbers as JSON, and a picture."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.io.atomic import replacing, write_text
from equipoise.io.figures import png
from equipoise.io.numbers import hand_over

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class AnalysisReport:
    name: str  # of its files
    sentence: str  # also the picture's caption
    numbers: Mapping[str, Any]  # JSON-able
    figure: Figure

    def write(self, folder: Path, command: str) -> None:
        """NAME.json and NAME.png in `folder`, and the sentence to a person."""
        record = {"finding": self.sentence, "command": command, **self.numbers}
        write_text(
            folder / f"{self.name}.json", json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        )
        hand_over({**record, "folder": str(folder)})
        with replacing(folder / f"{self.name}.png") as temporary:
            temporary.write_bytes(png(self.figure, dpi=130))
        print(f"{self.sentence}\n\nThe picture is {folder / self.name}.png, the numbers are in {self.name}.json")
