"""What a file holds, before it is read as a table: nothing, text, or something else under a table's name."""

from __future__ import annotations

from pathlib import Path

from equipoise.data.files.table_parquet import PARQUET
from equipoise.types import UserError

LOOKED_AT = 4096  # bytes
UTF16 = (b"\xff\xfe", b"\xfe\xff")


def require_content(file: Path) -> None:
    """Raises UserError for an empty file, and for one whose ending says that it is text where it is not."""
    try:
        with file.open("rb") as stream:
            start = stream.read(LOOKED_AT)
    except OSError as error:
        raise UserError(f"{file}: this file cannot be read ({error.strerror}); check it") from None
    if not start.strip():
        raise UserError(f"{file}: there is nothing in this file; check it")
    if file.suffix.lower() in PARQUET:
        return
    if start.startswith(UTF16):
        raise UserError(f"{file}: this is UTF-16 text; save it as UTF-8")
    if b"\0" in start:
        raise UserError(f"{file}: this is no table, for its bytes are not those of text; check what it is")
