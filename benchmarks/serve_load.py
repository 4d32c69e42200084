"""Load of `equipoise serve`: many users at once on this machine, each on one connection, and every error counted.

    python benchmarks/serve_load.py runs/demo --users 100 --seconds 60

A user searches by text, looks at four small pictures, asks why one was found every third time and searches by a picture
of their own every fifth; then waits `--pause` seconds, as people do. Users and service share the processor. Exits with
1 if anything but a good answer came.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import random
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from typing import Any

from PIL import Image

COLOURS, THINGS = ("red", "blue", "green", "yellow", "black"), ("star", "fish", "tree", "heart", "circle")
BOUNDARY = "a-part-begins-here"


class Connection:
    """One user's connection, spoken to by hand: a library would take more of the processor than the service."""

    def __init__(self, port: int):
        self.port = port
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> tuple[int, bytes]:
        lines = (
            f"{method} {path} HTTP/1.1",
            "host: localhost",
            f"content-type: {kind}",
            f"content-length: {len(body)}",
        )
        self.writer.write("\r\n".join((*lines, "", "")).encode() + body)
        await self.writer.drain()
        answer = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = re.search(r"content-length: (\d+)", answer)
        assert length, answer
        return int(answer.split()[1]), await self.reader.readexactly(int(length[1]))


class Load:
    def __init__(self, port: int, pause: float):
        self.port, self.pause = port, pause
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)
        self.errors: Counter[str] = Counter()

    async def timed(self, name: str, connection: Connection, *request: Any) -> bytes:
        start = time.perf_counter()
        status, body = await connection.ask(*request)
        self.seconds[name].append(time.perf_counter() - start)
        if status != 200:
            self.errors[f"{name} {status} {body[:80]!r}"] += 1
            raise ConnectionError(status)
        return body

    async def user(self, number: int, until: float) -> None:
        draw, turn, connection = random.Random(number), 0, Connection(self.port)
        await connection.open()
        await asyncio.sleep(draw.random() * self.pause)
        while time.perf_counter() < until:
            turn += 1
            try:
                await self.turn(connection, draw, number + turn)
            except (OSError, asyncio.IncompleteReadError) as error:
                if not isinstance(error, ConnectionError) or not error.args:
                    self.errors[type(error).__name__] += 1
                connection = Connection(self.port)
                await connection.open()
            await asyncio.sleep(self.pause * draw.uniform(0.5, 1.5))

    async def turn(self, connection: Connection, draw: random.Random, turn: int) -> None:
        text = f"a {draw.choice(COLOURS)} {draw.choice(THINGS)} and a {draw.choice(COLOURS)} {draw.choice(THINGS)}"
        query: dict[str, Any] = {"texts": [text], "k": 24}
        if turn % 5 == 0:
            part = f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="file"; filename="a.png"\r\n\r\n'.encode()
            body = part + _picture(draw) + f"\r\n--{BOUNDARY}--\r\n".encode()
            kind = f"multipart/form-data; boundary={BOUNDARY}"
            given = await self.timed("upload", connection, "POST", "/api/pictures", body, kind)
            query["pictures"] = [json.loads(given)["picture"]]
        answer = await self.timed("search", connection, "POST", "/api/search", json.dumps(query).encode())
        rows = [hit["row"] for hit in json.loads(answer)["found"]]
        assert rows, answer
        for row in rows[:4]:
            await self.timed("picture", connection, "GET", f"/api/rows/{row}/thumbnail")
        if turn % 3 == 0:
            question = json.dumps({"row": rows[0], "text": text}).encode()
            await self.timed("explain", connection, "POST", "/api/explain", question)


def _picture(draw: random.Random) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (320, 240), draw.choice(COLOURS)).save(buffer, format="PNG")
    return buffer.getvalue()


async def load_of(port: int, users: int, seconds: float, pause: float) -> Load:
    load, until = Load(port, pause), time.perf_counter() + seconds
    await asyncio.gather(*(load.user(number, until) for number in range(users)))
    return load


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="what is served")
    parser.add_argument("--users", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two turns of a user")
    options = parser.parse_args()
    command = [sys.executable, "-m", "equipoise", "serve", options.run, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        found = next(
            (re.search(r"Open http://localhost:(\d+)/", line) for line in service.stdout if "Open" in line), None
        )
        assert found, "the service did not start"
        try:
            load = asyncio.run(load_of(int(found[1]), options.users, options.seconds, options.pause))
        finally:
            service.terminate()
    total = sum(map(len, load.seconds.values()))
    print(f"{options.users} users, {options.seconds:.0f} s: {total:,} requests, {total / options.seconds:.0f} a second")
    print("| request | number | median ms | p99 ms | longest ms |\n|---|---:|---:|---:|---:|")
    for name, times in load.seconds.items():
        times.sort()
        shown = (times[len(times) // 2], times[int(0.99 * (len(times) - 1))], times[-1])
        print(f"| {name} | {len(times):,} | " + " | ".join(f"{1000 * one:.0f}" for one in shown) + " |")
    for error, count in load.errors.items():
        print(f"error, {count} times: {error}")
    print(f"{sum(load.errors.values())} errors")
    return 1 if load.errors else 0


if __name__ == "__main__":
    sys.exit(main())
