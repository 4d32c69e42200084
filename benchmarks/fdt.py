"""A code book against class tokens: Tables 1, 7 and 8 and §4.4 of Chen et al. 2023 (FDT), at toy scale on noisy scenes.

    python benchmarks/fdt.py methods --out FOLDER       CLIP, SLIP, FILIP, DeCLIP, and CLIP and DeCLIP with a code book
    python benchmarks/fdt.py sparsity --out FOLDER      Table 8: sparsemax and softmax at several scales of relevance
    python benchmarks/fdt.py size --out FOLDER          Table 7: the number of codes

Numbers are of the test split; those of the validation split, for choosing, are in the files of the cells. `left out` is
the completeness of §4.4 in the words of scenes, where guessing gives 50%. `weights` are the rows marked * of Table 8.
Purity is the share of the purest attribute among the 50 samples most relevant to a code, minus its share among all.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from statistics import mean

from cells import PRECISION, RECALL, ZERO_SHOT, Row, add_options, numbers, run, table

from equipoise.analysis.codebook.purity import TOP, image_labels, purity, text_labels
from equipoise.analysis.codebook.usage import use_of_images, use_of_texts, used
from equipoise.config import Run
from equipoise.data.source import Source
from equipoise.models.model import Model
from equipoise.readouts import CodeBook
from equipoise.workflows.claims.measure import complete_sentences

SCALES = (0.001, 0.003, 0.01, 0.03, 0.1)
SIZES = (64, 256, 1024, 4096, 16_384)
METHODS = {
    "CLIP": "demo",
    "CLIP + FDT": "fdt-scenes",
    "SLIP": "slip-scenes",
    "FILIP": "filip-scenes",
    "DeCLIP": "declip-scenes",
    "DeCLIP + FDT": "declip-fdt-scenes",
}
COMPLETE = {"left out": "completeness/object left out", "swapped": "completeness/object swapped"}
WEIGHTS = {f"weights, {name}": f"weights/{key}" for name, key in (RECALL | ZERO_SHOT).items()}
CODES = {
    "codes in an image": "count/active_image",
    "codes in a text": "count/active_text",
    "used": "count/used",
    "purity of images": "purity/image",
    "purity of texts": "purity/text",
}


def methods() -> list[Row]:
    return [Row(name, recipe) for name, recipe in METHODS.items()]


def sparsity() -> list[Row]:
    return [
        Row(f"{name}, scale {scale}", "fdt-scenes", (f"readout.activation={name}", f"readout.scale={scale}"))
        for name in ("sparsemax", "softmax")
        for scale in SCALES
    ]


def size() -> list[Row]:
    return [Row(f"{codes:,} codes", "fdt-scenes", (f"readout.codes={codes}",)) for codes in SIZES]


EXPERIMENTS = {
    "methods": (methods, RECALL | PRECISION | ZERO_SHOT | COMPLETE),
    "sparsity": (sparsity, RECALL | ZERO_SHOT | COMPLETE | WEIGHTS | CODES),
    "size": (size, RECALL | ZERO_SHOT | COMPLETE | WEIGHTS | CODES),
}


def judge(model: Model, run: Run) -> dict[str, float]:
    source = run.data.build("test")
    found = {**numbers(model, run, "test"), **complete_sentences(model, source)}
    found |= {f"validation/{key}": value for key, value in numbers(model, run, "validation").items()}
    return found | (_of_codes(model, run, source) if isinstance(model.shared, CodeBook) else {})


def _of_codes(model: Model, run: Run, source: Source) -> dict[str, float]:
    """Code weights as features, how many codes make a sample, and how pure they are."""
    by_weights = replace(run, evaluation=replace(run.evaluation, features="weights"))
    found = {f"weights/{key}": value for key, value in numbers(model, by_weights, "test").items()}
    pairs = [source.pair(index) for index in range(len(source))]
    captions = [caption for pair in pairs for caption in pair.captions]
    images = use_of_images(model, source, TOP, image_labels(pairs))
    texts = use_of_texts(model, captions, TOP, 1, text_labels(captions)).usage
    codes = used(images, texts)
    found["count/used"] = len(codes)
    for name, use in (("image", images), ("text", texts)):
        found[f"count/active_{name}"] = float(use.fires.sum() / use.samples)
        tops = [purity(use, code)["top"] for code in codes]
        found[f"purity/{name}"] = mean(one.share - one.base for one in tops)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="A code book against class tokens.")
    parser.add_argument("experiment", choices=EXPERIMENTS)
    add_options(parser)
    options = parser.parse_args()
    rows, columns = EXPERIMENTS[options.experiment]
    print(table(run(rows(), options, judge), columns))


if __name__ == "__main__":
    main()
