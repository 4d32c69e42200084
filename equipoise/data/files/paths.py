"""From what a recipe says of its files to the files themselves: lists, {00000..00099}, * and URLs.

URLs are https:, s3:, gs: and file:; object stores (s3:, gs:) are opened by fsspec. `pipe:COMMAND` is what a shell
command prints, and is run only where the user named that very command in this call and said `--allow-pipe`
(`settings/trust.py`): never because a stored config.toml has it.
"""

from __future__ import annotations

import glob
import hashlib
import re
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

from equipoise.io.atomic import replacing
from equipoise.settings.one_line import one_line
from equipoise.settings.trust import PIPE, current_trust
from equipoise.types import UserError

Patterns = str | tuple[str, ...]
BRACES = re.compile(r"\{([^{}]*)\}")
RANGE = re.compile(r"(\d+)\.\.(\d+)")
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # two letters at least, so that no drive of Windows is meant
STORES = {"s3": "s3fs", "gs": "gcsfs"}  # object stores, and the library by which fsspec opens each
SCHEMES = ("https", *STORES, "file")
PLAIN_URL = re.compile(r"[^\s'\"`\\|<>\x00-\x1f\x7f]+")  # some versions of webdataset hand it to a shell
MOST_FILES = 1_000_000


def as_tuple(patterns: Patterns) -> tuple[str, ...]:
    """One pattern or a list of them, empty ones left out."""
    return tuple(filter(None, (patterns,) if isinstance(patterns, str) else patterns))


def find_files(patterns: Patterns, root: str = "", cache: str = "", folder_ending: str = ".tar") -> list[Path]:
    """The files that patterns stand for, in order; a folder stands for the files in it that end so."""
    found: list[Path] = []
    for pattern in as_tuple(patterns):
        for name in expand_braces(pattern):
            found += [_fetched(name, cache)] if URL.match(name) else _local(name, root, pattern, folder_ending)
    return found


def expand_braces(pattern: str) -> Iterator[str]:
    """`a-{00..02}.tar` is a-00.tar, a-01.tar, a-02.tar; `{x,y}.tar` is x.tar, y.tar."""
    match = BRACES.search(pattern)
    if not match or pattern.startswith(PIPE):  # in a shell command braces are the shell's
        yield pattern
        return
    before, after = pattern[: match.start()], pattern[match.end() :]
    for middle in _alternatives(match[1], pattern):
        yield from expand_braces(f"{before}{middle}{after}")


def _alternatives(inside: str, pattern: str) -> list[str]:
    numbers = RANGE.fullmatch(inside)
    if not numbers:
        return inside.split(",")
    first, last = (int(digits[:20]) for digits in numbers.groups())
    if not 0 <= last - first < MOST_FILES:
        raise UserError(f'"{pattern}" has the range {{{inside}}}; count upwards, to {MOST_FILES:,} files at most')
    return [f"{number:0{len(numbers[1])}d}" for number in range(first, last + 1)]


def _local(name: str, root: str, pattern: str, folder_ending: str) -> list[Path]:
    path = Path(root) / name
    if path.is_dir():
        inside = sorted(path.glob(f"*{folder_ending}"))
        if not inside:
            raise UserError(f"{path}: there is no file in this folder that ends in {folder_ending}; check the path")
        return inside
    if path.is_file():
        return [path]
    matches = sorted(glob.glob(str(path))) if glob.has_magic(name) else []
    if not matches:
        written = f' (from "{pattern}")' if pattern != name else ""
        raise UserError(f"{path}: there is no such file{written}; check the path")
    return [Path(match) for match in matches]


def _fetched(url: str, cache: str) -> Path:
    """A copy of what is at a URL, made once."""
    _require_allowed(url)
    if not cache:
        raise UserError(
            f"{url}: this is a URL; name a folder for local copies with data.cache, in a recipe or by --set (one that "
            "only a model's own config.toml names is not used)"
        )
    ending = re.sub(r"[^A-Za-z0-9.-]+", "-", url.rsplit("/", 1)[-1])[-60:].strip("-")
    path = Path(cache) / f"{hashlib.blake2b(url.encode(), digest_size=8).hexdigest()}-{ending}"
    if path.exists():
        return path
    with replacing(path) as temporary:
        try:
            with _opened(url) as stream, temporary.open("wb") as copy:
                shutil.copyfileobj(stream, copy)
        except UserError:
            raise
        except Exception as error:  # each scheme has its own ways to fail
            raise UserError(f"{url}: this cannot be fetched ({' '.join(str(error).split())}); check it") from None
    return path


def _opened(url: str) -> AbstractContextManager[IO[bytes]]:
    """Bytes of a URL: of an object store by fsspec, which torch comes with, of others by webdataset."""
    opened: Any
    scheme = url.partition(":")[0]
    store = STORES.get(scheme)
    try:
        if store:
            import fsspec

            opened = fsspec.filesystem(scheme).open(url, "rb")  # not fsspec.open, which would follow a::b to others
        else:
            from webdataset.gopen import gopen

            opened = gopen(url)
    except ImportError as error:
        needed, command = (store, store) if store else ("webdataset", "'equipoise[shards]'")
        raise UserError(f"{_shown(url)}: this needs {needed}; install it with: pip install {command}") from error
    return opened


def _require_allowed(url: str) -> None:
    """Raise UserError for what must not be opened: shell commands nobody allowed, and schemes beyond the few known."""
    if url.startswith(PIPE):
        if url not in current_trust().commands:
            raise UserError(
                f"{_shown(url)}: this is a shell command, which is run only if a recipe or --set names it and "
                "--allow-pipe is given, and never from a model's or a run's own config.toml"
            )
    elif url.partition(":")[0] not in SCHEMES:
        raise UserError(
            f"{_shown(url)}: URLs begin with one of {', '.join(f'{name}:' for name in SCHEMES)}; fetch it yourself"
        )
    elif not PLAIN_URL.fullmatch(url):
        raise UserError(f"{_shown(url)}: this URL has blanks, quotes or signs of a shell; write them as %20, %27, ...")


def _shown(url: str) -> str:
    """A URL as part of one line."""
    text = one_line(url)
    return text if len(text) <= 80 else f"{text[:77]}..."
