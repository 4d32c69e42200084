"""What an installation of Equipoise consists of, read from the metadata of the installed packages.

A requirement may hold for some interpreters and machines alone (`; python_version < "3.12"`), so the walk is made once
for each of `PLACES`, whichever of them this one is.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PYTHONS = ("3.11", "3.12", "3.13")
LINUX = {"sys_platform": "linux", "platform_system": "Linux"}
PLACES = [
    {**LINUX, "python_version": python, "python_full_version": f"{python}.0", "platform_machine": machine}
    for python in PYTHONS
    for machine in ("x86_64", "aarch64")
]
# Built apart for each kind of accelerator and published on indices of its own (2.13.0+cpu, 2.13.0+cu130 ...), each
# with other files under one version: no list of hashes serves them all, and a CUDA build brings packages of its own.
APART = ("torch",)
APART_BRINGS = ("nvidia-", "cuda-")
# What `make demo` installs, and what `make test` does.
LOCKS = {"requirements.lock": ("tensorboard", "shards", "parquet", "serve"), "requirements-test.lock": ("test",)}
BUILD = "setuptools"  # makes the installation of the working tree; pip need not fetch another for it


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    return {canonicalize_name(name): pinned for name, pinned in (line.split("==") for line in lines)}


def declared(extras: Iterable[str]) -> list[Requirement]:
    """What pyproject.toml asks for, with the extras that an extra names (`equipoise[shards]`) put in its place."""
    table = project()
    found, waiting = list(map(Requirement, table["dependencies"])), list(extras)
    while waiting:
        for text in table["optional-dependencies"][waiting.pop()]:
            requirement = Requirement(text)
            if requirement.name == table["name"]:
                waiting += requirement.extras
            else:
                found.append(requirement)
    return found


def closure(roots: Iterable[Requirement]) -> tuple[dict[str, str], list[str]]:
    """Versions of all packages that `roots` lead to in any of `PLACES`, and the requirements that nothing meets."""
    versions: dict[str, str] = {}
    unmet: set[str] = set()
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [requirement for requirement in roots if _holds(requirement, ("",))]
    while waiting:
        requirement = waiting.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if name.startswith(APART_BRINGS):
            continue
        try:
            versions[name] = version(name).split("+")[0]  # 2.13.0+cpu is a build of 2.13.0
        except PackageNotFoundError:
            unmet.add(str(requirement))
            continue
        if not requirement.specifier.contains(versions[name], prereleases=True):
            unmet.add(f"{requirement} (there is {versions[name]})")
        if (name, extras) not in seen:
            seen.add((name, extras))
            waiting += [r for r in map(Requirement, requires(name) or ()) if _holds(r, ("", *extras))]
    return versions, sorted(unmet)


def _holds(requirement: Requirement, extras: Iterable[str]) -> bool:
    if requirement.marker is None:
        return True
    return any(
        requirement.marker.evaluate({**_here(), **place, "extra": extra}) for place in PLACES for extra in extras
    )


def _here() -> dict[str, str]:
    return {name: str(value) for name, value in default_environment().items()}


def locked(name: str) -> Iterator[tuple[str, str, list[str]]]:
    """Name, version and hashes of each package of a lock file."""
    whole = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    for line in whole.splitlines():
        if line and not line.startswith("#"):
            pinned, *hashes = line.split()
            name, number = pinned.split("==")
            yield name, number, [word.removeprefix("--hash=sha256:") for word in hashes]
