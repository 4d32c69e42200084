"""Digests of a folder's files, in `digests.json` beside them: a file that was damaged, or that comes from another
folder, is noticed before it is used.

    {"step": 1200, "sha256": {"config.toml": "9f86d0...", "model.safetensors": "60303a...", ...}}

The SHA-256 of a file, as `sha256sum` prints it; of one above 64 MiB, the SHA-256 of those of its parts of 64 MiB, one
after the other (`split -b 64M --filter='sha256sum | head -c 64 | xxd -r -p' FILE | sha256sum`), for several threads
compute parts faster than a disk writes them. They tell accidents and mix-ups, not malice: who can change a file can
change its digest.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.io.atomic import write_text
from equipoise.types import UserError

DIGESTS = "digests.json"
PART = 64 * 2**20  # bytes
BLOCK = 2**20  # bytes read at once
THREADS = min(8, os.cpu_count() or 1)
ACCEPT = "accept the change with --no-verify (in Python: verify=False)"

_verifies: ContextVar[bool] = ContextVar("verifies", default=True)
_noted: set[Path] = set()  # folders without digests that were told of


@contextmanager
def verifying(wanted: bool) -> Iterator[None]:
    """Compare files with their digests in what is called here, or do not."""
    token = _verifies.set(wanted and _verifies.get())
    try:
        yield
    finally:
        _verifies.reset(token)


@dataclass(frozen=True)
class Digests:
    """What `digests.json` holds."""

    step: int | None  # of training, after which the files were written
    sha256: Mapping[str, str]  # by the names of files, relative to the folder


def file_digest(path: Path) -> str:
    """The SHA-256 of a file, by parts if it is large."""
    starts = range(0, path.stat().st_size, PART)
    if len(starts) <= 1:
        return _digest_of_part(path, 0).hex()
    with ThreadPoolExecutor(THREADS) as pool:
        parts = pool.map(lambda start: _digest_of_part(path, start), starts)
        return hashlib.sha256(b"".join(parts)).hexdigest()


def write_digests(folder: Path, names: Iterable[str], step: int | None, known: Mapping[str, str] | None = None) -> None:
    """Write the digests of the named files that exist, and those that are `known` already: the last file to write."""
    found = {name: file_digest(folder / name) for name in names if (folder / name).is_file()}
    _write(folder, Digests(step, {**found, **(known or {})}))


def renew_digest(folder: Path, name: str) -> None:
    """Note a file that was written anew on purpose, in a folder that has digests."""
    stored = read_digests(folder)
    if stored is not None:
        _write(folder, Digests(stored.step, {**stored.sha256, name: file_digest(folder / name)}))


def read_digests(folder: Path) -> Digests | None:
    """The digests of a folder; None where an earlier version wrote it without them."""
    path = folder / DIGESTS
    if not path.is_file():
        return None
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        step, digests = stored["step"], stored["sha256"]
        if not (step is None or type(step) is int) or not all(map(_is_digest, digests.values())):
            raise ValueError("these are no digests")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"cannot read {path} ({error or type(error).__name__}); bring it back, or {ACCEPT}") from error
    return Digests(step, digests)


def require_intact(folder: Path, names: Iterable[str]) -> None:
    """Raise UserError unless each of the named files is that whose digest is stored: changed, missing and added ones
    are told. A folder without digests is noted once."""
    if not _verifies.get():
        return
    stored = read_digests(folder)
    if stored is None:
        _note(folder)
        return
    for name in names:
        path, digest = folder / name, stored.sha256.get(name)
        if digest is None and path.is_file():
            raise UserError(f"{path} is not among the files of {folder / DIGESTS}; remove it, or {ACCEPT}")
        if digest is not None and not path.is_file():
            raise UserError(f"{path} is missing, a file of {folder / DIGESTS}; bring it back, or {ACCEPT}")
        if digest is not None and _digest_for_users(path) != digest:
            raise UserError(
                f"{path} was changed or belongs to another model: its SHA-256 is not that in {DIGESTS}; bring back the "
                f"file that was saved, or {ACCEPT}"
            )


def _note(folder: Path) -> None:
    if (place := folder.resolve()) not in _noted:
        _noted.add(place)
        warnings.warn(
            f"{folder} has no {DIGESTS} (earlier versions wrote none): whether its files are those saved is not known",
            stacklevel=4,
        )


def _write(folder: Path, digests: Digests) -> None:
    content = {"step": digests.step, "sha256": dict(sorted(digests.sha256.items()))}
    write_text(folder / DIGESTS, json.dumps(content, indent=2) + "\n")


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _digest_for_users(path: Path) -> str:
    try:
        return file_digest(path)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}; check the disk") from error


def _digest_of_part(path: Path, start: int) -> bytes:
    digest, left = hashlib.sha256(), PART
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        while left and (block := file.read(min(BLOCK, left))):
            digest.update(block)
            left -= len(block)
    return digest.digest()
