"""SoftCLIP step by step: the ladder of Table 5 and Figures 5(a) and 5(b) of Gao et al. 2024, at toy scale.

    python benchmarks/softclip.py scenes --out FOLDER                      noisy scenes, regions and tags as guides
    python benchmarks/softclip.py features --out FOLDER --set data.train=TRAIN.npz --set data.validation=DEV.npz
    python benchmarks/softclip.py beta --out FOLDER --set data.train=TRAIN.npz --set data.validation=DEV.npz
    python benchmarks/softclip.py fashion --out FOLDER --set data.root=FOLDER_OF_SHARDS        (flickr8k as well)

`scenes` trains the towers of `demo`; the guides are regions and tags of a detector that errs, or the image and text
themselves (Fig. 5a). `features` trains heads on frozen features with the settings of the recipe `features`, which were
chosen for CLIP; guides are those features (`vectors`) or the points being trained (`image_text`). `beta` is Fig. 5(b)
on features. `fashion` and `flickr8k` are real pictures from scratch, where many captions are the same.
"""

from __future__ import annotations

import argparse

from cells import PRECISION, RECALL, ZERO_SHOT, Row, add_options, run, table

GUIDED = {"+ soft": "clip_soft", "+ relation": "clip_soft_relation", "+ symmetric (SoftCLIP)": "softclip"}
SMALL = (
    "preprocess.size=32",
    "image.patch=8",
    'data.textures=["solid", "outlined"]',
    'data.shapes=["circle", "square", "triangle", "star", "heart", "cross", "fish", "tree"]',
    'data.colours=["red", "orange", "yellow", "green", "blue", "purple", "black", "white"]',
    "training.steps=400",
    "training.evaluate_every=400",
)
BETAS = (0.0001, 0.1, 0.3, 0.5, 0.9)


def ladder(recipe: str, base: tuple[str, ...], unguided: tuple[str, ...], guide: str) -> list[Row]:
    """The rows of Table 5, and the last one with the image and text themselves as guides (Fig. 5a)."""
    plain = {"CLIP": "clip", "+ label smoothing": "clip_smoothed"}
    rows = [Row(name, recipe, (*base, *unguided, f"objective.name={objective}")) for name, objective in plain.items()]
    for name, objective in GUIDED.items():
        settings = (f"objective.name={objective}", f"objective.guide.name={guide}")
        rows.append(Row(f"{name}, {guide}", recipe, (*base, *settings)))
    own = (*unguided, "objective.name=softclip", "objective.guide.name=image_text")
    return [*rows, Row("SoftCLIP, image_text", recipe, (*base, *own))]


def scenes() -> list[Row]:
    without = ("regions.width=0", "data.detector.regions=0")
    return ladder("softclip-scenes", SMALL, without, "regions_tags")


def features() -> list[Row]:
    return ladder("features", ("data.guides=true",), (), "vectors")


def beta() -> list[Row]:
    return [
        Row(
            f"β = {value}, {'with' if weight else 'without'} relation",
            "features",
            (
                "data.guides=true",
                "objective.name=softclip",
                "objective.guide.name=vectors",
                f"objective.beta={value}",
                f"objective.relation_weight={weight}",
            ),
        )
        for weight in (0.0, 1.0)
        for value in BETAS
    ]


def real(recipe: str) -> list[Row]:
    soft = ("objective.name=softclip", "objective.guide.name=image_text")
    return [
        Row("CLIP", recipe, ("objective.name=clip",)),
        Row("CLIP, duplicates are positives", recipe, ("objective.name=clip", "objective.target.name=duplicates")),
        Row("SoftCLIP, image_text", recipe, soft),
        Row("SoftCLIP, duplicates are positives", recipe, (*soft, "objective.match.name=duplicates")),
    ]


EXPERIMENTS = {
    "scenes": (scenes, RECALL | PRECISION | ZERO_SHOT),
    "features": (features, RECALL),
    "beta": (beta, RECALL),
    "fashion": (lambda: real("fashion"), RECALL),
    "flickr8k": (lambda: real("flickr8k"), RECALL),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="SoftCLIP step by step.")
    parser.add_argument("experiment", choices=EXPERIMENTS)
    add_options(parser)
    options = parser.parse_args()
    rows, columns = EXPERIMENTS[options.experiment]
    print(table(run(rows(), options), {**columns, "t": "t"}))


if __name__ == "__main__":
    main()
