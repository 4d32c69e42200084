"""README.md for PyPI, which shows it alone: links and pictures as addresses of the repository at one tag.

python tools/pypi_readme.py https://github.com/OWNER/equipoise v0.2.0        # rewrites README.md; a release does it
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<path>(?!https?:|#|mailto:)[^)\s]+)\)")


def absolute(text: str, repository: str, tag: str) -> str:
    """The text, its links to files of the repository written out."""

    def address(match: re.Match[str]) -> str:
        kind = "raw" if match["picture"] else "blob"
        return f"{match['picture']}[{match['text']}]({repository}/{kind}/{tag}/{match['path']})"

    return LINK.sub(address, text)


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    README.write_text(absolute(README.read_text(encoding="utf-8"), *sys.argv[1:]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
