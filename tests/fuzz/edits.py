"""Damage to files, said as plain data, so that a case can be kept as a line of JSON and done again.

    {"file": "preprocess.json", "do": "write", "text": "[]"}              other contents ("hex" for bytes)
    {"file": "model.safetensors", "do": "flip", "bits": [8123]}           bits turned over
    {"file": "a.tar", "do": "splice", "at": 12, "drop": 3, "hex": "00"}   bytes taken out, others put in
    {"file": "a.tar", "do": "cut", "to": 100}                             cut off; "remove" takes the whole file
    {"file": "x.json", "do": "json", "at": ["a", 0], "value": null}       one value of a JSON file
    {"file": "x.safetensors", "do": "tensor", "name": "w", "how": "nan"}  one tensor, see `TENSORS`; .npz as well
    {"file": "a.tar", "do": "entry", "name": "x.json", "hex": "7b7d"}     an entry of a tar, new or changed
    {"file": "a.csv", "do": "append", "text": "x"}                        more at the end

A value {"deep": n} stands for n lists within each other, {"times": [text, n]} for a text repeated.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save

Edit = dict[str, Any]


def apply(folder: Path, edit: Edit) -> None:
    """Do an edit to a file of a folder. The file is written anew, for others may share the old one."""
    path = folder / edit["file"]
    before = path.read_bytes() if path.is_file() else b""
    path.unlink(missing_ok=True)
    after = OPERATIONS[edit["do"]](before, edit)
    if after is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(after)


def plain(value: Any) -> Any:
    """A value with its shorthand written out; "deep" alone stays text, for the json module cannot write it."""
    if isinstance(value, dict) and value.keys() == {"times"}:
        return value["times"][0] * value["times"][1]
    return value


def text_of(value: Any) -> str:
    if isinstance(value, dict) and value.keys() == {"deep"}:
        return "[" * value["deep"] + "]" * value["deep"]
    return json.dumps(plain(value))


def contents(edit: Edit) -> bytes:
    if "hex" in edit:
        return bytes.fromhex(edit["hex"])
    found = edit["text"]
    if isinstance(found, dict):
        found = text_of(found) if "deep" in found else plain(found)
    return str(found).encode("utf-8", "surrogatepass")


def flip(before: bytes, edit: Edit) -> bytes:
    data = bytearray(before)
    for bit in edit["bits"]:
        if data:
            data[bit // 8 % len(data)] ^= 1 << bit % 8
    return bytes(data)


def splice(before: bytes, edit: Edit) -> bytes:
    return before[: edit["at"]] + bytes.fromhex(edit["hex"]) + before[edit["at"] + edit["drop"] :]


def json_value(before: bytes, edit: Edit) -> bytes:
    """One value replaced; a path that the file does not have makes the whole file the value."""
    mark = "\0the value\0"
    try:
        whole = inner = json.loads(before)
        for key in edit["at"][:-1]:
            inner = inner[key]
        inner[edit["at"][-1]] = mark
    except (ValueError, LookupError, TypeError):
        whole = mark
    return json.dumps(whole).replace(json.dumps(mark), text_of(edit["value"])).encode()


TENSORS: dict[str, Callable[[torch.Tensor], torch.Tensor | None]] = {
    "nan": lambda t: _filled(t, float("nan")),
    "inf": lambda t: _filled(t, float("inf")),
    "huge": lambda t: torch.full(t.shape, 1e300, dtype=torch.float64),
    "zero": torch.zeros_like,
    "drop": lambda t: None,
    "flat": lambda t: t.reshape(-1),
    "scalar": lambda t: t.reshape(-1)[0].clone() if t.numel() else torch.zeros(()),
    "empty": lambda t: t[:0].clone() if t.ndim else t.reshape(1)[:0].clone(),
    "deeper": lambda t: t.unsqueeze(0).clone(),
    "half": lambda t: t[: len(t) // 2].clone() if t.ndim else t,
    **{
        f"as {kind}": (lambda t, kind=kind: t.to(getattr(torch, kind)))
        for kind in ("bool", "int64", "float16", "float64", "complex64", "uint8")
    },
}


def _filled(tensor: torch.Tensor, value: float) -> torch.Tensor:
    return torch.full_like(tensor if tensor.is_floating_point() else tensor.float(), value)


def tensor(before: bytes, edit: Edit) -> bytes:
    change = TENSORS[edit["how"]]
    if edit["file"].endswith(".npz"):
        with np.load(io.BytesIO(before), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        arrays[edit["name"]] = changed_array(arrays.get(edit["name"], np.zeros(1)), change)
        out = io.BytesIO()
        np.savez(out, **{name: array for name, array in arrays.items() if array is not None})
        return out.getvalue()
    tensors = load(before)
    new = change(tensors.get(edit["name"], torch.zeros(1)))
    tensors = {**tensors, edit["name"]: new}
    return save({name: one.contiguous() for name, one in tensors.items() if one is not None}, _metadata(before))


def _metadata(data: bytes) -> dict[str, str] | None:
    size = int.from_bytes(data[:8], "little")
    found: dict[str, str] | None = json.loads(data[8 : 8 + size]).get("__metadata__")
    return found


def changed_array(array: np.ndarray, change: Callable[[torch.Tensor], torch.Tensor | None]) -> np.ndarray | None:
    if array.dtype.kind in "USO":
        return np.array([["x"]])
    new = change(torch.from_numpy(np.ascontiguousarray(array)))
    return None if new is None else new.numpy()


def entry(before: bytes, edit: Edit) -> bytes:
    """A tar with one file in it changed, or one more."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as new:
        done = False
        with tarfile.open(fileobj=io.BytesIO(before)) as old:
            for member in old:
                data = old.extractfile(member)
                if member.name == edit["name"] and not done:
                    done = True
                    _add(new, edit)
                elif data is not None:
                    new.addfile(member, data)
        if not done:
            _add(new, edit)
    return out.getvalue()


def _add(new: tarfile.TarFile, edit: Edit) -> None:
    info = tarfile.TarInfo(edit["name"])
    info.type = edit.get("type", "0").encode()
    info.linkname = edit.get("link", "")
    data = contents(edit)
    info.size = len(data) if info.isreg() else 0
    new.addfile(info, io.BytesIO(data))


OPERATIONS: dict[str, Callable[[bytes, Edit], bytes | None]] = {
    "write": lambda before, edit: contents(edit),
    "append": lambda before, edit: before + contents(edit),
    "remove": lambda before, edit: None,
    "cut": lambda before, edit: before[: edit["to"]],
    "flip": flip,
    "splice": splice,
    "json": json_value,
    "tensor": tensor,
    "entry": entry,
}
