"""Files that people have, and that are wrong: what each is, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path

from every_format import captions, png

COUNT = 30  # pictures; more bad ones among them than are ever stepped over


def write_bad(folder: Path) -> dict[str, str]:
    """DATA by name."""
    pictures = [f"images/{number:03d}.png" for number in range(COUNT)]
    (folder / "images").mkdir(parents=True)
    for number, name in enumerate(pictures):
        (folder / name).write_bytes(png(number))
    pairs = [(name, captions(number)[1]) for number, name in enumerate(pictures)]
    latin = [f"{name},{'Café' if number % 2 else 'house'} {number}" for number, name in enumerate(pictures)]
    coco = {
        "images": [{"id": number, "file_name": name} for number, name in enumerate(pictures)],
        "annotations": [{"image_id": 500 + number, "caption": "a cat"} for number in range(COUNT)],
    }
    lines = [json.dumps({"image": name, "caption": text}) for name, text in pairs]
    texts = {
        "numbers.csv": _table([("4", "17"), ("5", "18")], "size,count"),
        "no-captions-column.csv": _table([(name, "7") for name in pictures], "image,width"),
        "no-header.csv": _table(pairs[1:], ",".join(pairs[0])),
        "missing.csv": _table([(f"nowhere/{name}", text) for name, text in pairs]),
        "half-missing.csv": _table([(f"no/{name}" if n % 2 else name, text) for n, (name, text) in enumerate(pairs)]),
        "empty-captions.csv": _table([(name, "") for name in pictures]),
        "header-only.csv": "image,caption\n",
        "empty.csv": "",
        "blank.csv": "\n\n",
        "empty.jsonl": "",
        "empty.json": "",
        "broken.jsonl": "\n".join([*lines[:6], lines[6][:-9], *lines[7:]]),
        "no-objects.jsonl": "\n".join(["[1, 2]", *lines]),
        "cut.json": json.dumps(coco)[:300],
        "ids.json": json.dumps(coco),
        "instances.json": json.dumps({**coco, "annotations": [{"image_id": 0, "category_id": 3}]}),
        "neither.json": json.dumps({"version": 3}),
        "words.json": json.dumps(["a", "b"]),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    mixed = [line.encode("latin-1" if number % 4 == 1 else "utf-8") for number, line in enumerate(latin)]
    more = [f"{name},{text} café".encode("latin-1" if n % 2 else "utf-8") for n, (name, text) in enumerate(pairs)]
    raw = {
        "mixed.csv": b"\n".join([b"image,caption", *more, *mixed]),
        "utf16.csv": "\n".join(["image,caption", *latin]).encode("utf-16"),
        "picture.csv": png(0),
        "picture.tar": png(0),
        "empty.tar": b"",
        "empty.parquet": b"",
        "text.parquet": b"image,caption\n",
        "zeros.csv": bytes(100),
    }
    for name, data in raw.items():
        (folder / name).write_bytes(data)
    _write_parquet(folder, pairs)
    (folder / "empty").mkdir()
    (folder / "papers" / "more").mkdir(parents=True)
    (folder / "papers" / "more" / "notes.md").write_text("no pictures here")
    _write_shards(folder)
    names = (*texts, *raw, "cut.parquet", "cut-pages.parquet", "empty", "papers", "cut.tar", "nowhere.csv", "nowhere")
    return {name: str(folder / name) for name in names}


def _table(rows: list[tuple[str, str]], header: str = "image,caption") -> str:
    return "\n".join([header, *(",".join(row) for row in rows)])


def _write_parquet(folder: Path, pairs: list[tuple[str, str]]) -> None:
    """One without its end, and one whose pages are damaged while its end is whole."""
    import pyarrow
    from pyarrow import parquet

    images = [{"bytes": (folder / name).read_bytes(), "path": name} for name, _ in pairs]
    parquet.write_table(pyarrow.table({"image": images, "caption": [text for _, text in pairs]}), folder / "whole")
    whole = (folder / "whole").read_bytes()
    (folder / "whole").unlink()
    (folder / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    (folder / "cut-pages.parquet").write_bytes(whole[:4] + bytes(2000) + whole[2004:])


def _write_shards(folder: Path) -> None:
    import io
    import tarfile

    with tarfile.open(folder / "cut.tar", "w") as tar:
        for number in range(COUNT):
            for ending, data in (("png", png(number)), ("txt", captions(number)[0].encode())):
                entry = tarfile.TarInfo(f"{number}.{ending}")
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    whole = (folder / "cut.tar").read_bytes()
    (folder / "cut.tar").write_bytes(whole[: 20 * 512 + 100])
