"""Print the lowest version that pyproject.toml allows of each requirement, for pip: `make test-lowest` installs them.

python tools/lowest.py tensorboard shards parquet      the package's own and those of these extras
"""

from __future__ import annotations

import sys

from closure import declared
from packaging.requirements import Requirement


def lowest(requirement: Requirement) -> str:
    bounds = [one.version for one in requirement.specifier if one.operator in (">=", "==")]
    if len(bounds) != 1:
        sys.exit(f"pyproject.toml gives {requirement} no lower bound")
    return f"{requirement.name}=={bounds[0]}"


if __name__ == "__main__":
    print("\n".join(sorted({lowest(requirement) for requirement in declared(sys.argv[1:])})))
