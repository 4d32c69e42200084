"""What is at a URL, copied to a disk once.

URLs are https:, s3:, gs: and file:; object stores (s3:, gs:) are opened by fsspec. `pipe:COMMAND` is what a shell
command prints, and is run only where the user named that very command in this call and said `--allow-pipe`
(`settings/trust.py`): never because a stored config.toml has it.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

from equipoise.data.braces import expand_braces
from equipoise.io.atomic import replacing
from equipoise.io.results_folder import DRIVERS, StoreFolder
from equipoise.settings.one_line import one_line
from equipoise.settings.trust import PIPE, current_trust
from equipoise.types import UserError

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # two letters at least, so that no drive of Windows is meant
SCHEMES = ("https", *DRIVERS, "file")
PLAIN_URL = re.compile(r"[^\s'\"`\\|<>\x00-\x1f\x7f]+")  # some versions of webdataset hand it to a shell


def fetched(url: str, cache: str) -> Path:
    """A copy of what is at a URL, made once."""
    return _fetch(url, _copy_of(url, cache))


def fetch_arrays(address: str, cache: str, endings: tuple[str, ...]) -> list[Path]:
    """Copies of the files of arrays at an address, made once: a file, several by {00000..00099}, or those of a folder
    in a store that end so. The .json of a safetensors file comes with it."""
    found: list[Path] = []
    for url in expand_braces(address.rstrip("/")):
        folder, _, name = url.rpartition("/") if url.endswith(endings) else (url, "", "")
        home = _copy_of(folder, cache)
        for each in [name] if name else _names_in(folder, endings):
            path = home / each
            for copy in (path.with_suffix(".json"), path) if path.suffix == ".safetensors" else (path,):
                _fetch(f"{folder}/{copy.name}", copy)
            found.append(path)
    return found


def _names_in(url: str, endings: tuple[str, ...]) -> list[str]:
    if url.startswith("https:"):
        raise UserError(f"{_shown(url)}: a folder of the web cannot be listed; name its files, as in {{00000..00099}}")
    names = sorted(name for name in StoreFolder(url).names() if name.endswith(endings))
    if not names:
        raise UserError(f"{_shown(url)}: there is no file in it that ends in {' or '.join(endings)}; check the address")
    return names


def _copy_of(url: str, cache: str) -> Path:
    """Where a copy of what is at a URL goes."""
    _require_allowed(url)
    if not cache:
        raise UserError(
            f"{url}: this is a URL; name a folder for local copies with data.cache, in a recipe or by --set (one that "
            "only a model's own config.toml names is not used)"
        )
    ending = re.sub(r"[^A-Za-z0-9.-]+", "-", url.rsplit("/", 1)[-1])[-60:].strip("-")
    return Path(cache) / f"{hashlib.blake2b(url.encode(), digest_size=8).hexdigest()}-{ending}"


def _fetch(url: str, path: Path) -> Path:
    _require_allowed(url)
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
    store = DRIVERS.get(scheme)
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
