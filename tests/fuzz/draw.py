"""Random damage: which edit is done to which file, drawn from a seed."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from random import Random
from typing import Any

from edits import TENSORS, Edit

# Values that readers of numbers, names and lists trip over.
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 1.5, -0.0, 1e-300, 1e300, 1e30, 10**9, 2**31, 2**63, 2**64, 10**30, -(2**63), "",
    "x", "nan", "1", "\u200b", "\0", "é", "../x", "/", "a" * 300, "\ud800", [], {}, [[]], [1, 2, 3], ["x"], [None],
    {"x": 1}, {"name": "x"}, [1, "x"], [[1, 2], [3]], {"deep": 40}, {"deep": 5000}, {"times": ["x", 100_000]},
    float("nan"), float("inf"), float("-inf"),
]  # fmt: skip
WORDS = [
    b"\0", b"\xff", b"\n", b"\r\n", b'"', b"'", b"[", b"]", b"{", b"}", b"=", b"#", b",", b"\t", b"nan", b"inf", b"-1",
    b"1e999", b"9" * 40, b"null", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\\u0000", b"%s", b"../",
    b"\x00" * 64, b"\xff" * 64,
]  # fmt: skip
TEXTS = [
    "", " ", "\n", "\t", "\u200b", "\0", "\x01", "\x7f", "\u0301", "\ufffd", "\ud800", "\udfff", "\u202e abc",
    "<|endoftext|>", "[CLS]", "[UNK] [SEP]", "a" * 5000,
    "字" * 600, "👩‍👩‍👧‍👦" * 50, "é\u0301", "\u2028", "\x1b[31m", "'", '"',
    "%n%s{}{0}", "<script>", "\ufeffa", "NULL", "a\0b",
    "ﷺ" * 40, "\u00a0", "．", "a\r\nb", "=1+1", "-", "1", "\U000e0001",
]  # fmt: skip


def damage(random: Random, folder: Path, file: str) -> Edit:
    """One edit of a file, of a kind that suits it."""
    data = (folder / file).read_bytes()
    kinds = ["flip", "flip", "splice", "splice", "cut", "write", "words"]
    suffix = Path(file).suffix
    if suffix == ".json":
        kinds += ["json"] * 12
    if suffix in (".safetensors", ".npz"):
        kinds += ["tensor"] * 8
    if suffix == ".tar":
        kinds += ["entry"] * 12
    return {"file": file, **_edit(random, random.choice(kinds), data, file)}


def _edit(random: Random, kind: str, data: bytes, file: str) -> Edit:
    size = max(1, len(data))
    # headers and directories, where the structure is, are at the ends
    near = random.choice(
        [random.randrange(size), random.randrange(min(size, 512)), size - 1 - random.randrange(min(size, 512))]
    )
    if kind == "flip":
        return {"do": "flip", "bits": [8 * near + random.randrange(8) for _ in range(random.choice([1, 1, 1, 4]))]}
    if kind == "splice":
        drop = random.choice([0, 1, 4, 64])
        put = random.randbytes(random.choice([0, 1, 4, 64])) if random.random() < 0.5 else random.choice(WORDS)
        return {"do": "splice", "at": near, "drop": drop, "hex": put.hex()}
    if kind == "words":
        return {"do": "splice", "at": near, "drop": random.choice([0, 1]), "hex": random.choice(WORDS).hex()}
    if kind == "cut":
        return {"do": "cut", "to": near}
    if kind == "json":
        return {"do": "json", "at": _path(random, data), "value": random.choice(VALUES)}
    if kind == "tensor":
        name = random.choice(_names(data, file) or ["x"])
        return {"do": "tensor", "name": name, "how": random.choice(list(TENSORS))}
    if kind == "entry":
        return _tar_entry(random, data)
    whole = [b"", b"[]", b"{}", b"3", b"null", b'"x"', b"\0", random.randbytes(100), b"[" * 100_000, b"a\n" * 1000]
    return {"do": "write", "hex": random.choice(whole).hex()}


def _path(random: Random, data: bytes) -> list[Any]:
    """Where in a JSON document, at any depth."""
    path: list[Any] = []
    found = json.loads(data)
    while isinstance(found, dict | list) and found and (not path or random.random() < 0.7):
        key = random.choice(list(found)) if isinstance(found, dict) else random.randrange(len(found))
        path.append(key)
        found = found[key]
    return path or ["x"]


def _names(data: bytes, file: str) -> list[str]:
    if file.endswith(".npz"):
        import zipfile

        return [name.removesuffix(".npy") for name in zipfile.ZipFile(io.BytesIO(data)).namelist()]
    size = int.from_bytes(data[:8], "little")
    return [name for name in json.loads(data[8 : 8 + size]) if name != "__metadata__"]


def _tar_entry(random: Random, data: bytes) -> Edit:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        names = tar.getnames()
    name = random.choice([*names, "x.txt", "x.jpg", "../x.txt", "/x.jpg", "a/b.c.txt", "é.txt", "x"])
    if name.endswith(".json") and random.random() < 0.7:
        record = {key: random.choice(VALUES) for key in random.sample(["label", "tags", "boxes", "caption", "key"], 2)}
        record = {key: None if isinstance(value, dict) else value for key, value in record.items()}
        return {"do": "entry", "name": name, "text": json.dumps(record)}
    if name.endswith(".txt") and random.random() < 0.8:
        return {"do": "entry", "name": name, "text": random.choice(TEXTS)}
    kind = random.choice(["0", "0", "1", "2", "3", "5", "6"])
    return {"do": "entry", "name": name, "hex": random.randbytes(40).hex(), "type": kind, "link": random.choice(names)}
