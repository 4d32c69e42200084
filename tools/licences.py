"""Licences of all that an installation consists of, by the packages' own metadata: writes docs/licences.md.

.venv/bin/python tools/licences.py      exit status 1 if one is copyleft (GPL, AGPL, LGPL) or says nothing
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import metadata

from closure import LOCKS, ROOT, closure, declared

COPYLEFT = re.compile(r"\b[AL]?GPL|GNU (Affero |Lesser |Library )?General Public", re.IGNORECASE)
# Metadata that says nothing, read up by hand in the package's own LICENSE file.
BY_HAND: dict[str, str] = {}
HEAD = """# Licences of the dependencies

Written by `python tools/licences.py` from the metadata of the installed packages; Equipoise itself is Apache-2.0.
No package is under the GPL, AGPL or LGPL. A CUDA build of torch brings NVIDIA's libraries under NVIDIA's own terms;
they are not listed, for they come with the build that you choose.

| package | version | licence | installed by |
|---|---|---|---|
"""


def main() -> int:
    demo = closure(declared(LOCKS["requirements.lock"]))[0]
    whole = closure(declared(LOCKS["requirements-test.lock"]))[0]
    said = {name: licence(name) for name in sorted(whole)}
    rows = [
        f"| {name} | {whole[name]} | {said[name]} | {'`make demo`' if name in demo else '`make test`'} |"
        for name in said
    ]
    (ROOT / "docs" / "licences.md").write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")
    doubtful = [f"{name}: {text or 'says nothing'}" for name, text in said.items() if not text or COPYLEFT.search(text)]
    print("\n".join(doubtful) or f"docs/licences.md: {len(rows)} packages, none copyleft")
    return 1 if doubtful else 0


def licence(name: str) -> str:
    """The licence a package declares: its SPDX expression, else its classifiers, else the first line of its text."""
    told = metadata(name)
    if told["License-Expression"]:
        return told["License-Expression"]
    classes = [line.rpartition(" :: ")[2] for line in told.get_all("Classifier", []) if line.startswith("License :: ")]
    classes = [line for line in classes if line != "OSI Approved"]
    first = (told["License"] or "").strip().partition("\n")[0]
    return ", ".join(classes) or first or BY_HAND.get(name, "")


if __name__ == "__main__":
    sys.exit(main())
