"""README's list of commands, from the table: `python tests/cli/readme.py` writes it after a command was added."""

from __future__ import annotations

from pathlib import Path

from equipoise.cli import COMMANDS

README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- commands: python tests/cli/readme.py -->\n", "<!-- end of commands -->\n"


def with_commands(text: str) -> str:
    """The README with the list between its two marks made anew."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = [f"| `{name}` | {summary} |\n" for name, (_, summary) in COMMANDS.items()]
    return "".join((before, BEGIN, "| `equipoise ...` | what it does |\n|---|---|\n", *rows, END, after))


if __name__ == "__main__":
    README.write_text(with_commands(README.read_text(encoding="utf-8")), encoding="utf-8")
