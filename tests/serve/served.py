"""Small services for tests: a tiny run, suspects of its training data, a client that speaks as a browser here does."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from starlette.testclient import TestClient

from equipoise.config import load_stored
from equipoise.data.keep.file import KeepTable, write_keep
from equipoise.data.keep.records import records
from equipoise.models.folder import CONFIG
from equipoise.serve.app import build_app
from equipoise.serve.guard import Access
from equipoise.serve.open import open_service
from equipoise.serve.request import ServeRequest
from equipoise.serve.service import Service


def keep_folder(run: Path, folder: Path) -> Path:
    """A keep file on all captions of the run's training data, as `equipoise clean` writes it; P(right) drawn."""
    loaded = load_stored(run / CONFIG)
    named = list(records(loaded.run.training_pairs()))
    keys = [key for key, texts in named for _ in texts]
    numbers = np.concatenate([np.arange(len(texts)) for _, texts in named])
    right = np.random.default_rng(0).random(len(keys)).astype(np.float32)
    fingerprints = np.concatenate([texts for _, texts in named])
    keep = right >= 0.5
    kinds = ["" if one else "another" for one in keep]
    table = KeepTable(keys, numbers, fingerprints, right, keep, keep.astype(np.float32), [""] * len(keys), kinds)
    note = {"finding": "Some captions look wrong.", "noise": 0.5, "rule": {"rule": "threshold", "threshold": 0.5}}
    write_keep(folder, table, {**note, "recipe": loaded.table})
    return folder


def service_of(run: Path, **settings: Any) -> Service:
    return open_service(ServeRequest(run, **settings))


def client_of(service: Service, access: Access | None = None) -> TestClient:
    """To be used as a context, which closes the service; what goes wrong inside is answered, not raised."""
    return TestClient(build_app(service, access), base_url="http://localhost", raise_server_exceptions=False)


def png(width: int = 40, height: int = 30, colour: str = "red") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(buffer, format="PNG")
    return buffer.getvalue()


def bomb(side: int = 60_000) -> bytes:
    """A small PNG whose header promises more pixels than a machine has room for."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )
