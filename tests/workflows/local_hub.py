"""A hub on this machine: what huggingface_hub asks of an endpoint to fetch a data set, served from a folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class DataSetHub(ThreadingHTTPServer):
    """Has the files of a folder as one data set; those that are `broken` cannot be had."""

    def __init__(self, folder: Path, name: str, broken: tuple[str, ...]):
        super().__init__(("127.0.0.1", 0), Answer)
        self.folder, self.name, self.broken, self.asked = folder, name, broken, list[str]()

    def files(self) -> list[str]:
        return sorted(str(file.relative_to(self.folder)) for file in self.folder.rglob("*") if file.is_file())

    def reply(self, path: str) -> tuple[int, bytes]:
        """Status and content."""
        self.asked.append(path)
        if any(path.endswith(file) for file in self.broken):
            return 500, b""
        about = f"/api/datasets/{self.name}"
        if path.startswith(f"{about}/tree/"):
            return 200, json.dumps([self.entry(file) for file in self.files()]).encode()
        if path == about or path.startswith(f"{about}/revision/"):
            listed = [{"rfilename": file} for file in self.files()]
            return 200, json.dumps({"id": self.name, "sha": COMMIT, "siblings": listed}).encode()
        file = path.removeprefix(f"/datasets/{self.name}/resolve/").partition("/")[2]
        return (200, (self.folder / file).read_bytes()) if file in self.files() else (404, b"")

    def entry(self, file: str) -> dict[str, object]:
        content = (self.folder / file).read_bytes()
        return {"type": "file", "oid": hashlib.sha1(content).hexdigest(), "size": len(content), "path": file}


class Answer(BaseHTTPRequestHandler):
    server: DataSetHub

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, body: bool) -> None:
        status, content = self.server.reply(self.path.partition("?")[0])
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def local_hub(folder: Path, name: str, broken: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """The hub's address, and the paths that it was asked for."""
    hub = DataSetHub(folder, name, broken)
    thread = Thread(target=hub.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{hub.server_port}", hub.asked
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()
