"""docs/commands.md, from the table of commands: `python tests/cli/commands_page.py` writes it after one was added."""

from __future__ import annotations

from pathlib import Path

from equipoise.cli import COMMANDS

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
BEGIN, END = "<!-- commands: python tests/cli/commands_page.py -->\n", "<!-- end of commands -->\n"


def with_commands(text: str) -> str:
    """The page with the list between its two marks made anew."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = [f"| `{name}` | {summary} |\n" for name, (_, summary) in COMMANDS.items()]
    return "".join((before, BEGIN, "| `equipoise ...` | what it does |\n|---|---|\n", *rows, END, after))


if __name__ == "__main__":
    PAGE.write_text(with_commands(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
