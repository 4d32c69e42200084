"""`equipoise search`: what is closest to a text or a picture in an index."""

from __future__ import annotations

from pathlib import Path

from equipoise.index import open_index, require_same_model
from equipoise.io.lines import one_line
from equipoise.io.numbers import hand_over
from equipoise.models.fingerprint import fingerprint
from equipoise.types import UserError
from equipoise.workflows.load import load

SHOWN = 60  # characters of a caption


def search(where_index: str, model_path: Path, text: str, image: Path | None, top: int, where: str) -> None:
    """Print the rows closest to a text or a picture."""
    if bool(text.strip()) == (image is not None):
        if not text and not image and not model_path.exists():
            raise UserError(f"{model_path} is no model folder; it comes between the index and the text")
        raise UserError("say what to look for: a text, or a picture with --image, and not both")
    index = open_index(where_index)
    require_same_model(index, fingerprint(model_path), str(model_path))
    model = load(model_path, "auto")
    points = model.encode_text([text]) if image is None else model.encode_image([image])
    found = index.search(points, top, where)
    rows = [row for row in found.rows[0].tolist() if row >= 0]
    results = []
    for row, score, record in zip(rows, found.scores[0].tolist(), index.records(rows), strict=False):
        caption = one_line(record.caption)
        print(f"{score:8.4f}  {one_line(record.name)}  {caption[:SHOWN] + '…' * (len(caption) > SHOWN)}")
        results.append({"row": row, "score": score, "key": record.key, "of": record.of, "captions": record.captions})
    if not rows:
        print("There is nothing to find: no record passes the filter" if where else "The index is empty")
    hand_over({"results": results})
    index.close()
