"""Retrieval in two stages against k, the candidates of each query that the matching head judges: R@1 and what it costs.

    python benchmarks/rerank.py runs/tcl-scenes --out rerank.png               # a run of ALBEF or TCL, on its test data
    python benchmarks/rerank.py runs/tcl-scenes --k 1 8 64 --out rerank.png

Points alone are k = 1: one candidate has no other place. Seconds are of the second stage, points not counted. *Do not*
choose k by this on test data.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from equipoise.evaluation import EVALUATIONS
from equipoise.evaluation.encoding import Encoded
from equipoise.evaluation.evaluate import to_encode
from equipoise.evaluation.two_stage import wanted_k
from equipoise.io.figures import INK, SERIES, captioned_figure, panel_title, plain_log_scale, png, style
from equipoise.types import UserError
from equipoise.workflows.load import load_with_settings

WAYS = {"image → text": "image_to_text_R@1", "text → image": "text_to_image_R@1"}
KS = (2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Reranked:
    images: int
    texts: int
    by_points: dict[str, float]  # R@1 by direction
    by_k: dict[int, dict[str, float]]  # R@1 by direction, `pairs_scored` and `seconds`


def reranked(encoded: Encoded, ks: Sequence[int]) -> Reranked:
    """R@1 of points alone, and of the matching head over the first k."""
    stage = EVALUATIONS["two_stage"]
    if not stage.suits(encoded.model):
        raise UserError("this model has no matching head; train one by objective.name = albef or tcl")
    images, texts = len(encoded.images), len(encoded.captions(encoded.per_image).points)
    alone = EVALUATIONS["retrieval"](encoded).metrics
    by_k = {}
    for k in sorted({wanted_k(k, images, texts) for k in ks}):
        encoded.settings = replace(encoded.settings, rerank=k)
        start = time.perf_counter()
        found = stage(encoded).metrics
        seconds = time.perf_counter() - start
        kept = (*WAYS.values(), "pairs_scored")
        by_k[k] = {**{key: float(found[key]) for key in kept}, "seconds": seconds}
    return Reranked(images, texts, {key: float(alone[key]) for key in WAYS.values()}, by_k)


def table(found: Reranked) -> str:
    """Markdown: a line for each k."""
    lines = ["| k | " + " | ".join(f"R@1 {way}" for way in WAYS) + " | pairs judged | seconds |"]
    lines += ["|---|" + "---:|" * (len(WAYS) + 2), f"| by points | {_percents(found.by_points)} | 0 | 0 |"]
    lines += [
        f"| {k} | {_percents(one)} | {one['pairs_scored']:,.0f} | {one['seconds']:.1f} |"
        for k, one in found.by_k.items()
    ]
    return "\n".join(lines)


def _percents(numbers: dict[str, float]) -> str:
    return " | ".join(f"{100 * numbers[key]:.1f}%" for key in WAYS.values())


def draw(found: Reranked, name: str) -> bytes:
    """PNG: R@1 over k beside what k costs."""
    pairs, ks = found.images * found.texts, list(found.by_k)
    caption = (
        f"{name}: {found.images:,} images, {found.texts:,} texts; all {pairs:,} pairs are the dashed line right. "
        f"The second stage took {found.by_k[ks[-1]]['seconds']:.0f} s with k = {ks[-1]}."
    )
    with style():
        figure = captioned_figure("Two stages: what the matching head adds, and what it costs", caption, 8.0, 3.6)
        left, right = figure.subplots(1, 2)
        for (way, key), colour in zip(WAYS.items(), SERIES, strict=False):
            left.plot(ks, [100 * found.by_k[k][key] for k in ks], "o-", color=colour, markersize=4, label=way)
            left.axhline(100 * found.by_points[key], color=colour, linewidth=1.2, linestyle=(0, (4, 3)))
        left.plot([], [], color=INK, linewidth=1.2, linestyle=(0, (4, 3)), label="by points alone")
        panel_title(left, "R@1, %")
        left.set_ylim(bottom=0)
        left.legend(loc="best")
        right.plot(ks, [found.by_k[k]["pairs_scored"] for k in ks], "o-", color=SERIES[2], markersize=4)
        right.axhline(pairs, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
        right.set_yscale("log")
        panel_title(right, "pairs through the fusion encoder")
        for axes in (left, right):
            plain_log_scale(axes, tuple(float(k) for k in ks))
            axes.set_xlabel("candidates judged of each query, k")
        return png(figure)


def main(words: Sequence[str] | None = None) -> Reranked:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run with a matching head")
    parser.add_argument("--k", type=int, nargs="+", default=list(KS), help="candidates judged")
    parser.add_argument("--out", type=Path, required=True, help="the picture")
    options = parser.parse_args(words)
    if min(options.k) < 1:
        parser.error("--k must be at least 1")
    model, loaded = load_with_settings(options.run, torch.device("cpu"))
    found = reranked(to_encode(model, loaded.run.data.build("test"), loaded.run.evaluation), options.k)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(draw(found, options.run.name))
    print(table(found), f"The picture is {options.out}", sep="\n\n")
    return found


if __name__ == "__main__":
    main()
