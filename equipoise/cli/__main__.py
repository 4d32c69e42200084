"""`python -m equipoise.cli`."""

import sys

from equipoise.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
