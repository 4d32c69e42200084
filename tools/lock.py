"""Write the lock files: every package of an installation, its version and the hashes of its files.

    .venv/bin/python tools/lock.py      after `make test` has passed with new versions in constraints.txt

Versions are those installed here, so that what is locked is what was tested; hashes are those the index names for all
files of a version, so that one file serves every machine and interpreter. PIP_INDEX_URL chooses another index.
"""

from __future__ import annotations

import os
import re
import sys
import urllib.request
from functools import cache
from html import unescape
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from closure import APART, BUILD, LOCKS, ROOT, closure, declared
from packaging.requirements import Requirement
from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

INDEX = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple")
HEAD = """\
# Written by tools/lock.py: each package, its version, and the hashes of all files of that version.
# Installed by `make locked`: pip install --require-hashes --no-deps -r {file}
# torch is not here: each of its builds has its own files under one version (docs/security.md). constraints.txt pins it.
"""
LINK = re.compile(r'href="([^"]+)"')


def main() -> int:
    for file, extras in LOCKS.items():
        versions, unmet = closure([*declared(extras), Requirement(BUILD)])
        if unmet:
            print(f"not locked, for these are not installed: {'; '.join(unmet)}", file=sys.stderr)
            return 1
        pins = [pin(name, versions[name]) for name in sorted(versions.keys() - set(APART))]
        (ROOT / file).write_text(HEAD.format(file=file) + "".join(pins), encoding="utf-8")
        print(f"{file}: {len(pins)} packages")
    return 0


def pin(name: str, version: str) -> str:
    if not (hashes := hashes_of(name, version)):
        sys.exit(f"{INDEX} has no file of {name} {version}")
    return f"{name}=={version}" + "".join(f" \\\n    --hash=sha256:{one}" for one in hashes) + "\n"


@cache
def hashes_of(name: str, version: str) -> list[str]:
    with urllib.request.urlopen(f"{INDEX}/{name}/", timeout=60) as page:
        links = [urlsplit(unescape(link)) for link in LINK.findall(page.read().decode())]
    return sorted(
        {
            link.fragment.removeprefix("sha256=")
            for link in links
            if link.fragment.startswith("sha256=")
            and _version(unquote(PurePosixPath(link.path).name)) == Version(version)
        }
    )


def _version(file: str) -> Version | None:
    try:
        return parse_wheel_filename(file)[1] if file.endswith(".whl") else parse_sdist_filename(file)[1]
    except (InvalidSdistFilename, InvalidWheelFilename, InvalidVersion):  # an egg, an installer of long ago
        return None


if __name__ == "__main__":
    sys.exit(main())
