"""Known vulnerabilities of what is locked, asked of PyPI: `make advisories`.

    exit status 0    every package was asked for and none is known to be vulnerable
                1    some are: each is printed with its advisory and the versions that mend it
                3    not all could be asked for (no network, or an index that does not serve PyPI's JSON): no verdict

PyPI keeps the advisories of the Python Packaging Advisory Database beside each version: /pypi/NAME/VERSION/json.
`--json URL` asks another server of the same form.
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from closure import APART, LOCKS, constraints, locked

FOUND, NO_VERDICT = 1, 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", default="https://pypi.org/pypi", help="where NAME/VERSION/json is served")
    server = parser.parse_args().json.rstrip("/")
    pins = {(name, version) for lock in LOCKS for name, version, _ in locked(lock)}
    pins |= {(name, constraints()[name]) for name in APART}
    with ThreadPoolExecutor(8) as pool:
        answers = dict(zip(sorted(pins), pool.map(lambda pin: advisories(server, *pin), sorted(pins)), strict=True))
    known = [(pin, one) for pin, found in answers.items() for one in found or ()]
    for (name, version), one in known:
        mended = ", ".join(one.get("fixed_in") or ()) or "no version yet"
        print(f"{name} {version}: {one['id']} ({one.get('link', '')}), mended in {mended}")
    silent = [f"{name} {version}" for (name, version), found in answers.items() if found is None]
    if silent:
        few = ", ".join(silent[:5]) + (" ..." if len(silent) > 5 else "")
        print(f"no verdict: {server} did not answer for {len(silent)} of {len(pins)} packages ({few})", file=sys.stderr)
    elif not known:
        print(f"{len(pins)} packages, no known advisory")
    return FOUND if known else NO_VERDICT if silent else 0


def advisories(server: str, name: str, version: str) -> list[dict[str, Any]] | None:
    """Those of a version that were not withdrawn; None where nobody answered."""
    try:
        with urllib.request.urlopen(f"{server}/{name}/{version}/json", timeout=30) as answer:
            found = json.load(answer)["vulnerabilities"]
    except (OSError, ValueError, KeyError):
        return None
    return [one for one in found if not one.get("withdrawn")]


if __name__ == "__main__":
    sys.exit(main())
