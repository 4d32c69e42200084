"""What the index of shards costs: seconds to open, memory and disk a record, time to read one (Linux).

    python benchmarks/record_index.py --records 1000000

Each row is a process of its own. Memory is what the process holds for itself (`RssAnon`): pages of a mapped file are
the system's, and go when others need the room. Records are tiny, so that reading one is mostly the index and opening a
file.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from equipoise.data.files import Shards
from equipoise.data.files.webdataset import ShardRecords

PICTURE = b"\xff\xd8" + bytes(600)
FILES = {"jpg": PICTURE, "txt": b"a red disc on the left of a blue square", "json": b'{"width": 256, "height": 256}'}
CACHE = "cache"  # beside the shards
ROWS = ("no cache", "new cache", "known cache")


def write_shards(folder: Path, records: int, per_shard: int) -> None:
    for number, start in enumerate(range(0, records, per_shard)):
        with (folder / f"{number:05d}.tar").open("wb") as file:
            for record in range(start, min(start + per_shard, records)):
                for ending, data in FILES.items():
                    entry = tarfile.TarInfo(f"{record:09d}.{ending}")
                    entry.size = len(data)
                    file.write(entry.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % tarfile.BLOCKSIZE))
            file.write(bytes(2 * tarfile.BLOCKSIZE))


def resident() -> int:
    """Bytes of memory that this process holds for itself."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) * 1024


def measured(folder: Path, cache: str, reads: int) -> tuple[float, float, float]:
    """Seconds to open, bytes of memory a record, microseconds a read."""
    patterns = (str(folder / "*.tar"),)
    before, start = resident(), time.perf_counter()
    records = Shards(train=patterns, cache=cache).records(patterns)
    opened = time.perf_counter() - start
    drawn = random.Random(0).choices(range(len(records)), k=reads)
    start = time.perf_counter()
    for index in drawn:
        read(records, index)
    took = time.perf_counter() - start
    return opened, (resident() - before) / len(records), took / reads * 1e6


def read(records: ShardRecords, index: int) -> None:
    pair, image = records.read(index)
    assert (pair.key, len(image)) == (f"{index:09d}", len(PICTURE))


def main() -> None:
    options = arguments()
    if options.row:
        cache = "" if options.row == ROWS[0] else str(options.folder / CACHE)
        print(*measured(options.folder, cache, options.reads))
        return
    print("| | opened, s | memory, bytes a record | disk, bytes a record | a read, µs |\n|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        write_shards(Path(name), options.records, options.per_shard)
        for row in ROWS:
            words = ("--folder", name, "--row", row, "--reads", str(options.reads))
            made = subprocess.run([sys.executable, __file__, *words], check=True, capture_output=True, text=True)
            opened, memory, took = map(float, made.stdout.split())
            disk = sum(path.stat().st_size for path in Path(name, CACHE).rglob("*") if path.is_file()) / options.records
            print(f"| {row} | {opened:,.2f} | {memory:,.1f} | {disk:,.1f} | {took:,.0f} |", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--per-shard", type=int, default=10_000)
    parser.add_argument("--reads", type=int, default=5_000)
    parser.add_argument("--folder", type=Path, help="where the shards are written for the time, 3.5 kB a record")
    parser.add_argument("--row", choices=ROWS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if min(options.records, options.per_shard, options.reads) < 1:
        parser.error("--records, --per-shard and --reads count from 1")
    return options


if __name__ == "__main__":
    main()
