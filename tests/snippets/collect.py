"""Everything in README, docs/*.md and `--help` that a reader may type: commands and Python."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from equipoise.cli import COMMANDS
from equipoise.cli.parser import words_of

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
HISTORY = {"LOG.md"}  # speaks of commands as they were then
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
TYPED = re.compile(r"(?:\$ )?(?:[A-Z_]+=\S+ )*(?:equipoise|make|torchrun|python|pip) ")
TYPED_IN = ("", "bash", "sh", "console")
INLINE = re.compile(r"`((?:equipoise|\S*python)\s[^`]+)`")
FIGURE = re.compile(r"!\[[^\]]*\]\(\S*images/([\w-]+)\.png\)")
REMARK = re.compile(r"\s+#.*$|\s{2,}[a-z][^-'\"=]*$")  # behind a command


@dataclass(frozen=True)
class Command:
    page: str
    text: str
    said: str = ""  # the sentence that the page shows below it, where it is a mistake

    @property
    def words(self) -> list[str]:
        """Without variables before it, and what it is piped into."""
        words = shlex.split(self.text)
        words = words[: words.index("|")] if "|" in words else words
        while "=" in words[0]:
            words = words[1:]
        return words

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"


@dataclass(frozen=True)
class Snippet:
    page: str
    number: int  # among those of its page, from 1
    text: str

    def __str__(self) -> str:
        return f"{self.page} {self.number}"


@dataclass(frozen=True)
class Block:
    """Commands that a page lists together, to be typed one after the other; of help, one command."""

    page: str
    number: int | str  # among those of the page; of a figure, its name
    commands: tuple[Command, ...]

    def __str__(self) -> str:
        return f"{self.page} {self.number}"


def blocks() -> list[Block]:
    """Of all pages, and the examples of help."""
    found = [block for page in PAGES if page.name not in HISTORY for block in _on_page(page)]
    examples = [f"equipoise {name} {words_of(module).EXAMPLE}".rstrip() for name, (module, _) in COMMANDS.items()]
    return found + [Block("--help", number, (Command("--help", text),)) for number, text in enumerate(examples, 1)]


def figures() -> list[Block]:
    """The figures of all pages, each with the commands of its section: in blocks, and within the text."""
    found = []
    for page in PAGES:
        for section in _sections(page.read_text(encoding="utf-8")):
            typed = [command for _, body in FENCE.findall(section) for command in _in_block(page.name, body)]
            within = (" ".join(text.split()) for text in INLINE.findall(FENCE.sub("", section)))
            typed += [Command(page.name, text) for text in within if len(text.split()) > 2 or "benchmarks" in text]
            found += [Block(page.name, name, tuple(typed)) for name in FIGURE.findall(section)]
    return found


def within_text() -> list[Block]:
    """Commands beside figures that stand in no block, once each."""
    listed = {command for block in blocks() for command in block.commands}
    found = {}
    for figure in figures():
        new = tuple(one for one in figure.commands if one.text.startswith("equipoise") and one not in listed)
        listed |= {*new}
        found[figure] = new
    return [Block(figure.page, figure.number, new) for figure, new in found.items() if new]


def snippets() -> list[Snippet]:
    found = []
    for page in PAGES:
        texts = [body for language, body in FENCE.findall(page.read_text(encoding="utf-8")) if language == "python"]
        found += [Snippet(page.name, number, text) for number, text in enumerate(texts, 1)]
    return found


def _on_page(page: Path) -> Iterator[Block]:
    bodies = [body for language, body in FENCE.findall(page.read_text(encoding="utf-8")) if language in TYPED_IN]
    for number, body in enumerate(bodies, 1):
        if found := tuple(_in_block(page.name, body)):
            yield Block(page.name, number, found)


def _sections(text: str) -> list[str]:
    """Of a page, by its headings; what stands before the first belongs to it where it has no commands of its own."""
    hidden = FENCE.sub(lambda block: block[0].replace("\n#", "\n #"), text)  # remarks are no headings
    first, *rest = re.split(r"^(?=##+ )", hidden, flags=re.M)
    return [first, *rest] if FENCE.search(first) else [first + "".join(rest[:1]), *rest[1:]]


def _in_block(page: str, body: str) -> Iterator[Command]:
    lines = re.sub(r" \\\n\s*", " ", body).splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if TYPED.match(line):
            said = below if line.startswith("$ ") and below.startswith("equipoise: ") else ""
            yield Command(page, REMARK.sub("", line.removeprefix("$ ")).rstrip(), said)


def statements(text: str) -> Iterator[tuple[str, str]]:
    """The statements of a snippet, each with the UserError that the page says it may raise."""
    lines = text.splitlines()
    for node in ast.parse(text).body:
        source = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        decorators = getattr(node, "decorator_list", [])
        if decorators:
            source = "\n".join(lines[decorators[0].lineno - 1 : node.end_lineno])
        yield source, lines[(node.end_lineno or 1) - 1].partition("# UserError")[2]
