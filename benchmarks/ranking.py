"""Time and memory of ranking COCO's 5,000 images and 25,000 captions: R@1, 5, 10 and ECCV Caption's mAP@R both ways.

    python benchmarks/ranking.py                      ours, CLIP_benchmark's recalls, eccv_caption's metrics, in turn
    python benchmarks/ranking.py --images 20000       memory as the set grows (ours alone: --ours)

Points are random; relevance is as dense as ECCV Caption's. Each runs in a process of its own, so that the peak of
memory is its own: the growth over what was there before the ranking. Peers need clip_benchmark and eccv_caption.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import numpy as np
import torch

PER_IMAGE, DIM = 5, 512
QUERIES, RELEVANT = 1300, (10, 40)  # of ECCV Caption's, each way: judged queries, relevant items of each


def peak() -> float:
    """MiB held at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Meter:
    """What has been used since it was made; time of the processor too, which other work on a machine changes less."""

    def __init__(self) -> None:
        self.before, self.start, self.busy = peak(), time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        seconds, processor = time.perf_counter() - self.start, time.process_time() - self.busy
        return {"seconds": seconds, "processor": processor, "MiB": peak() - self.before}


def world(images: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, list[dict[int, list[int]]]]:
    torch.manual_seed(0)
    points = [torch.nn.functional.normalize(torch.randn(n, DIM), dim=1) for n in (images, images * PER_IMAGE)]
    random, lists = np.random.default_rng(0), []
    for queries, items in ((images, images * PER_IMAGE), (images * PER_IMAGE, images)):
        chosen = random.choice(queries, min(QUERIES, queries), replace=False).tolist()
        several = (random.choice(items, random.integers(*RELEVANT), replace=False).tolist() for _ in chosen)
        lists.append(dict(zip(chosen, several, strict=True)))
    return points[0], points[1], torch.arange(images).repeat_interleave(PER_IMAGE), lists


def ours(images: int) -> dict[str, float]:
    from equipoise.evaluation.ranking import retrieval
    from equipoise.evaluation.relevance import join

    pictures, texts, owners, lists = world(images)
    meter = Meter()
    relevance = join(range(len(pictures)), range(len(texts)), *lists, "here").relevance
    found = retrieval(pictures, texts, lambda u, v: u @ v.T, owners, relevance)
    keys = ("image_to_text_R@5", "text_to_image_R@5", "image_to_text_mAP@R", "text_to_image_mAP@R")
    return {**meter.read(), **{key: found[key] for key in keys}}


def clip_benchmark(images: int) -> dict[str, float]:
    """Its evaluation with an encoder that hands on the points, in batches of 64 as its command has them."""
    from open_clip_peer import make_torchvision_importable

    make_torchvision_importable()
    from clip_benchmark.metrics.zeroshot_retrieval import evaluate

    pictures, texts, _, _ = world(images)

    class Points:
        encode_image = staticmethod(lambda batch: batch)
        encode_text = staticmethod(lambda batch: batch)

    def tokens(batch: list[int]) -> torch.Tensor:
        return texts[batch]

    loader = [
        (pictures[start : start + 64], [range(n * PER_IMAGE, (n + 1) * PER_IMAGE) for n in range(start, stop)])
        for start in range(0, images, 64)
        for stop in (min(start + 64, images),)
    ]
    meter = Meter()
    found = evaluate(Points(), loader, tokens, "cpu", amp=False, recall_k_list=[1, 5, 10])
    names = {"text_retrieval_recall@5": "image_to_text_R@5", "image_retrieval_recall@5": "text_to_image_R@5"}
    numbers = {ours: found[theirs] for theirs, ours in names.items()}
    return {**meter.read(), **numbers}


def eccv_caption(images: int) -> dict[str, float]:
    """Its metrics, from similarities to the ranked lists of ids that it asks for."""
    from eccv_caption._metrics import compute_eccv_metrics, compute_r_at_k

    pictures, texts, owners, lists = world(images)
    meter = Meter()
    scores = (pictures @ texts.T).numpy()
    ranked = [dict(enumerate(np.argsort(-one, axis=1))) for one in (scores, scores.T)]
    owner = owners.tolist()
    labelled = [
        {n: list(range(n * PER_IMAGE, (n + 1) * PER_IMAGE)) for n in range(images)},
        {n: [owner[n]] for n in range(len(texts))},
    ]
    numbers = {}
    for way, direction in enumerate(("image_to_text", "text_to_image")):
        for k in (1, 5, 10):
            value = float(compute_r_at_k(ranked[way], labelled[way], k))
            numbers |= {f"{direction}_R@{k}": value} if k == 5 else {}
        numbers[f"{direction}_mAP@R"] = float(compute_eccv_metrics(ranked[way], lists[way])["eccv_map_at_r"])
    return {**meter.read(), **numbers}


WHOSE = {"ours": ours, "clip_benchmark": clip_benchmark, "eccv_caption": eccv_caption}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--ours", action="store_true", help="without the peers")
    parser.add_argument("--one", choices=WHOSE, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(*(f"{name}={value:.8g}" for name, value in WHOSE[options.one](options.images).items()))
        return
    print(
        f"{options.images:,} images, {options.images * PER_IMAGE:,} texts, {torch.get_num_threads()} threads",
        flush=True,
    )
    for name in ["ours"] if options.ours else WHOSE:
        words = [sys.executable, __file__, "--one", name, "--images", str(options.images)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        lines = done.stdout.strip().splitlines() or ["killed: it ran out of memory" if done.returncode < 0 else ""]
        print(f"{name:16}{lines[-1] or done.stderr.strip().splitlines()[-1]}", flush=True)


if __name__ == "__main__":
    main()
