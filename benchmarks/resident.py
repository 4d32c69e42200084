"""How much memory this process took (Linux)."""

from __future__ import annotations

from pathlib import Path


class Resident:
    """The highest resident size since it was made, in bytes above what it was then."""

    def __init__(self) -> None:
        self.before = _status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # lets Linux forget the highest size so far

    def peak(self) -> int:
        return _status("VmHWM") - self.before


def highest_resident() -> int:
    """The highest resident size of this process, in bytes."""
    return _status("VmHWM")


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    kibibytes = next(line for line in lines if line.startswith(f"{field}:")).split()[1]
    return int(kibibytes) * 1024
