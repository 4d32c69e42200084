"""Model folders that try to run something, and what a call of the command line left behind."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from equipoise.cli import main
from equipoise.io.digests import renew_digest

# Every command that takes a model folder: {model} and {coded} are such folders, {run} one whose run is not finished.
COMMANDS = {
    "eval": "eval {model}",
    "eval with data": "eval {model} demo",
    "eval --before": "eval {good} demo --before {model}",
    "embed": "embed {model} demo --out out",
    "embed --text": "embed {good} demo --text {model} --out out",
    "export": "export {model} --to open_clip --out out",
    "lab equilibrium": "lab equilibrium {model}",
    "lab temperature": "lab temperature {model}",
    "lab landscape": "lab landscape {model}",
    "lab similarities": "lab similarities {model}",
    "lab tokens": "lab tokens {model}",
    "codes": "codes {coded}",
    "completeness": "completeness {model}",
    "vqa": "vqa {model}",
    "simat": "simat {model}",
    "probe": "probe {model} demo",
    "shift": "shift {model} demo --out out",
    "finetune": "finetune {model} demo --out out",
    "train --resume": "train --resume {run}",
    "train recipe --resume": "train demo --resume {run}",
    "audit --model": "audit demo --model {model} --out out",
    "regions --model": "regions shards.toml --model {model} --out out",
    "show": "show {model}/config.toml",
    "cite": "cite {model}/config.toml",
}
OF_ITS_OWN_DATA = (
    "eval",
    "lab equilibrium",
    "lab temperature",
    "lab landscape",
    "lab similarities",
    "codes",
    "completeness",
    "vqa",
    "simat",
    "train --resume",
)


def with_table(folder: Path, table: str, text: str) -> None:
    """Put other settings in the place of one table, and of those within it, of every config.toml of a folder."""
    for config in [folder / "config.toml", *folder.glob("checkpoints/*/config.toml")]:
        kept = re.sub(
            rf"^\[{table}(\.[^\]]*)?\]\n.*?(?=^\[|\Z)", "", config.read_text(), flags=re.DOTALL | re.MULTILINE
        )
        config.write_text(f"{kept}\n[{table}]\n{text}\n")
        renew_digest(config.parent, config.name)  # as whoever means harm would


def copied(folder: Path, place: Path, table: str, text: str) -> Path:
    """A copy of a model folder or run whose stored settings are hostile."""
    shutil.copytree(folder, place)
    with_table(place, table, text)
    return place


def refusal(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    """The one sentence in which a call is refused."""
    capsys.readouterr()
    assert main(words) == 2
    printed = capsys.readouterr()
    sentence = printed.err.splitlines()[-1]
    assert sentence.startswith("equipoise: ")
    assert "Traceback" not in printed.err
    return sentence
