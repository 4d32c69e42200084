"""SoftCLIP step by step on real features: `python benchmarks/softclip.py --train TRAIN.npz --validation DEV.npz`.

The rows of Table 5 (Gao et al. 2024), each with the settings of the recipe `features`, which were chosen for CLIP, and
R@1 on the validation files after the last step. Guides: `vectors` are the frozen features themselves, `image_text` the
points being trained. Every finished run leaves a JSON in `--out` and is not run again.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

import torch

from equipoise.config import load_run
from equipoise.evaluation.evaluate import evaluate
from equipoise.files import write_text
from equipoise.runs import train_run

GUIDED = {"+ soft": "clip_soft", "+ relation": "clip_soft_relation", "+ symmetric (SoftCLIP)": "softclip"}
METRICS = ("image_to_text_R@1", "text_to_image_R@1")


def rows() -> dict[str, tuple[str, ...]]:
    """Settings by the name of their row."""
    table: dict[str, tuple[str, ...]] = {
        "CLIP": ("objective.name=clip",),
        "CLIP + label smoothing": ("objective.name=clip_smoothed",),
    }
    for guide in ("vectors", "image_text"):
        for name, objective in GUIDED.items():
            table[f"{name}, {guide}"] = (f"objective.name={objective}", f"objective.guide.name={guide}")
    return table


def score(settings: list[str], folder: Path) -> dict[str, float]:
    """R@1 both ways, from a finished run or from a new one."""
    result = folder.with_suffix(".json")
    if not result.exists():
        loaded = load_run("features", settings)
        folder.mkdir(parents=True, exist_ok=True)
        model, outcome = train_run(loaded, folder)
        if outcome.signal:
            raise SystemExit(128 + outcome.signal)  # go on with the same command
        found = evaluate(model, loaded.run.data.build("validation"), loaded.run.evaluation)["retrieval"].metrics
        write_text(result, json.dumps({metric: found[metric] for metric in METRICS}))
    return json.loads(result.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description="The rows of SoftCLIP's Table 5 on precomputed features.")
    parser.add_argument("--train", required=True)
    parser.add_argument("--validation", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("runs/softclip"))
    parser.add_argument("--set", nargs="*", default=[], help="further settings for every run; give another --out")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = [f"data.train={options.train}", f"data.validation={options.validation}", "data.guides=true"]
    print("| objective | image to text R@1 | text to image R@1 |\n|---|---|---|")
    for name, settings in rows().items():
        slug = name.replace("+ ", "").replace(", ", "-").replace(" ", "_")
        found = [
            score([*data, *settings, *options.set, f"seed={seed}"], options.out / f"{slug}-{seed}")
            for seed in options.seeds
        ]
        cells = [_cell([100 * each[metric] for each in found]) for metric in METRICS]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def _cell(values: list[float]) -> str:
    return f"{statistics.mean(values):.1f} ({min(values):.1f}-{max(values):.1f})"


if __name__ == "__main__":
    main()
