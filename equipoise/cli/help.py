"""Help texts: every default is said, whether or not the words of an argument say it."""

from __future__ import annotations

import argparse
from typing import Any

SILENT: tuple[Any, ...] = (None, "", False, argparse.SUPPRESS)  # defaults that say nothing


class Help(argparse.HelpFormatter):
    def _get_help_string(self, action: argparse.Action) -> str | None:
        text, default = action.help or "", action.default
        said = "default" in text or not action.option_strings or (isinstance(default, list | tuple) and not default)
        if said or action.nargs == 0 or any(default is one or default == one for one in SILENT if one is not False):
            return text
        words = " ".join(map(str, default)) if isinstance(default, list | tuple) else str(default)
        return f"{text} (default: {words})".strip().replace("%", "%%")
