"""`equipoise benchmark` beside CLIP_benchmark and eccv_caption: the same models and files, their code, the difference.

    python benchmarks/benchmark_parity.py MODEL ... --suite FILE --data ROOT --out FOLDER
    python benchmarks/benchmark_parity.py MODEL ... --real DATA --out FOLDER      five real sets (`peer_sets.py`)

Prints a line per model and set with the largest difference of any metric that both have, and a table for docs. Needs
clip_benchmark, and for sets with relevance eccv_caption (pip install --no-deps clip_benchmark eccv_caption; tqdm,
scikit-learn).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from open_clip_peer import make_torchvision_importable
from peer_sets import lay_out
from PIL import Image
from torch import Tensor, nn

from equipoise.data.annotations.caption_ids import caption_ids
from equipoise.data.annotations.relevance_files import read_relevance
from equipoise.data.benchmark_sets.class_set import ClassSet
from equipoise.data.benchmark_sets.find import read_set
from equipoise.data.benchmark_sets.set_spec import SetSpec
from equipoise.reports.benchmark_page import Cell
from equipoise.training.distributed.ranks import Ranks
from equipoise.workflows.benchmark import BenchmarkRequest, run_benchmark
from equipoise.workflows.benchmark.embedder import OwnModel, find_embedder
from equipoise.workflows.benchmark.suite import read_suite

BATCH = 100


class AsTheirs(nn.Module):
    """A model of any kind as CLIP_benchmark calls one, with the transform and the tokenizer it wants."""

    def __init__(self, embedder: Any):
        super().__init__()
        self.embedder, self.texts = embedder, list[str]()
        self.own = isinstance(embedder, OwnModel)

    def transform(self, image: Image.Image) -> Tensor:
        if self.own:
            return self.embedder.model.preprocess.for_evaluation(image)[0]
        return self.embedder.prepare(image)

    def tokenizer(self, texts: Sequence[str]) -> Tensor:
        if not self.own:
            return self.embedder.tokenizer(list(texts))
        self.texts = list(texts)
        return torch.zeros(len(texts), 1)

    def encode_image(self, batch: Tensor) -> Tensor:
        if not self.own:
            return self.embedder.model.encode_image(batch)
        return self.embedder.model.eval().image_points(batch)

    def encode_text(self, tokens: Tensor) -> Tensor:
        return self.embedder.model.encode_text(self.texts if self.own else tokens)


class Loader(list):
    """Batches made when they are asked for, and a dataset with classes."""

    def __init__(self, model: AsTheirs, source: Any, labels: Sequence[Any], classes: Sequence[str] = ()):
        super().__init__()
        self.model, self.source, self.labels = model, source, labels
        self.dataset = SimpleNamespace(classes=classes)

    def __iter__(self) -> Any:
        for start in range(0, len(self.source), BATCH):
            chosen = range(start, min(start + BATCH, len(self.source)))
            files = (Image.fromarray(self.source.encoded(number).pixels()) for number in chosen)
            images = torch.stack([self.model.transform(file) for file in files])
            labels = [self.labels[number] for number in chosen]
            yield images, (torch.tensor(labels) if isinstance(labels[0], int) else labels)


def classification(model: AsTheirs, found: ClassSet) -> dict[str, float]:
    from clip_benchmark.metrics import zeroshot_classification as theirs

    templates = [template.replace("{}", "{c}") for template in found.templates]
    weights = theirs.zero_shot_classifier(model, model.tokenizer, list(found.names), templates, "cpu", amp=False)
    loader = Loader(model, found.source, found.labels, found.names)
    logits, target = theirs.run_classification(model, weights, loader, "cpu", amp=False)
    recall = float(theirs.balanced_accuracy_score(target, logits.argmax(1)))
    # its `accuracy` converts an array to a number, which numpy 2.4 refuses; this is what it computes
    hit = logits.topk(min(5, logits.shape[1]), 1).indices == target[:, None]
    five = {"acc5": hit.any(1).double().mean().item()} if logits.shape[1] >= 5 else {}
    return {"acc1": hit[:, 0].double().mean().item(), "mean_per_class_recall": recall, **five}


def retrieval(model: AsTheirs, found: Any, captions: int) -> dict[str, float]:
    from clip_benchmark.metrics import zeroshot_retrieval as theirs

    texts = [found.source.pair(number).captions[:captions] for number in range(len(found.source))]
    loader = Loader(model, found.source, texts)
    return theirs.evaluate(model, loader, model.tokenizer, "cpu", amp=False, recall_k_list=[1, 5, 10])


def relevance(found: Any, images: Tensor, texts: Tensor, captions: int) -> dict[str, float]:
    """eccv_caption's numbers of all sets of relevance, its ground truth replaced by what is left of it here."""
    from eccv_caption import _metrics as theirs

    ids = caption_ids(found.source, found.annotations)
    text_ids = [one for several in ids.captions for one in several[:captions]]
    scores = (images @ texts.T).numpy()
    ranked = {
        "image_to_text": _ranked(scores, ids.images, text_ids),
        "text_to_image": _ranked(scores.T, text_ids, ids.images),
    }
    numbers = {}
    for name, file in found.relevance.items():
        given = read_relevance(file)
        truth = {
            "image_to_text": _kept(given.by_image, set(ids.images), set(text_ids)),
            "text_to_image": _kept(given.by_caption, set(text_ids), set(ids.images)),
        }
        for direction, lists in truth.items():
            measured = theirs.compute_eccv_metrics(ranked[direction], lists)
            names = {"eccv_map_at_r": "mAP@R", "eccv_rprecision": "R-Precision", "eccv_r1": "R@1"}
            numbers |= {f"{direction}_{name}_{names[key]}": float(value) for key, value in measured.items()}
    return numbers


def _ranked(scores: np.ndarray, queries: Sequence[str], items: Sequence[str]) -> dict[str, list[str]]:
    return {query: [items[j] for j in np.argsort(-row)[:200]] for query, row in zip(queries, scores, strict=True)}


def _kept(lists: Any, queries: set[str], items: set[str]) -> dict[str, list[str]]:
    some = {query: [one for one in several if one in items] for query, several in lists.items() if query in queries}
    return {query: several for query, several in some.items() if several}


def theirs_on(model: AsTheirs, name: str, spec: SetSpec, root: Path) -> dict[str, float]:
    """The peers' numbers of a model on a set."""
    found = read_set(name, spec, root)
    if isinstance(found, ClassSet):
        return classification(model, found)
    numbers = retrieval(model, found, spec.captions)
    if found.relevance:
        pairs = (found.source.pair(number) for number in range(len(found.source)))
        texts = [one for pair in pairs for one in pair.captions[: spec.captions]]
        numbers |= relevance(found, model.embedder.images(found.source), model.embedder.texts(texts), spec.captions)
    return numbers


def table(cells: Mapping[tuple[str, str], Cell], apart: Mapping[tuple[str, str], float]) -> list[str]:
    """Lines of Markdown: a row per set, a column per model, and the largest difference of a row."""
    models, sets = ([*dict.fromkeys(key[part] for key in cells)] for part in (0, 1))
    names = [Path(model).name for model in models]
    lines = [f"| set, metric | {' | '.join(names)} | largest difference |", f"|---|{'---:|' * (len(models) + 1)}"]
    for name in sets:
        row = [cells[model, name] for model in models]
        largest = max(apart[model, name] for model in models)
        lines.append(f"| {name}, {row[0].main} | {' | '.join(cell.shown for cell in row)} | {largest:.0e} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--suite")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--real", type=Path, help="a folder of real data, instead of --suite and --data")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.real:
        options.suite, options.data = str(lay_out(options.real, options.out / "sets")), options.out / "sets"
    make_torchvision_importable()
    request = BenchmarkRequest(tuple(options.models), options.suite, options.data, options.out, device="cpu")
    found = {(cell["model"], cell["dataset"]): cell for cell in run_benchmark(request)}
    print(f"\n{'model':32}{'set':16}{'metrics':>8}{'largest difference':>20}")
    apart = {}
    for word in options.models:
        model = AsTheirs(find_embedder(word, torch.device("cpu"), Ranks()))
        for name, spec in read_suite(options.suite).items():
            ours, theirs = found[word, name]["metrics"], theirs_on(model, name, spec, options.data)
            apart[word, name] = max(abs(ours[key] - value) for key, value in theirs.items())
            print(f"{Path(word).name:32}{name:16}{len(theirs):8}{apart[word, name]:20.2e}", flush=True)
    cells = {}
    for key, cell in found.items():
        about = cell["equipoise"]
        cells[key] = Cell(cell["metrics"], about["intervals"], about["chance"], about["main"])
    print("", *table(cells, apart), sep="\n")


if __name__ == "__main__":
    main()
