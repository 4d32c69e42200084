"""How many of the true boxes and nouns of scenes are found without a detector: `python benchmarks/regions.py`.

Boxes: the share of a scene's things that one of the k surest boxes of `salient` overlaps (intersection over union) by
so much, beside boxes of the same sizes in random places. Nouns: captions' phrases against the scene's true tags,
by their last words. The settings of both were chosen on scenes of seed 0; these are of seed 1, in the test split.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

from equipoise.data.scenes.corpus import Scenes
from equipoise.detection import Phrases
from equipoise.detection.saliency import overlaps, salient_boxes

COUNTS, LEAST = (3, 10), (0.3, 0.5)
SIZE, CHUNK = 128, 50  # pixels of a scene, scenes at once


def moved(boxes: Tensor, dice: torch.Generator) -> Tensor:
    """Boxes [..., 4] of the same sizes, anywhere in the picture."""
    sides = boxes[..., 2:] - boxes[..., :2]
    corners = torch.rand(sides.shape, generator=dice) * (1 - sides)
    return torch.cat([corners, corners + sides], -1)


def best_overlaps(found: Tensor, true: Tensor) -> Tensor:
    """For each count of the surest boxes found [R, 4] and each true box, the largest overlap [COUNTS, T]."""
    shared = torch.stack([overlaps(found, box) for box in true])
    return torch.stack([shared[:, :count].amax(1) for count in COUNTS])


def boxes(source: Scenes) -> None:
    dice, shares = torch.Generator().manual_seed(0), dict[str, list[Tensor]]()
    for start in range(0, len(source), CHUNK):
        indices = range(start, min(start + CHUNK, len(source)))
        found, _ = salient_boxes(source.images(indices, SIZE), max(COUNTS))
        for name, some in (("salient", found), ("random places, same sizes", moved(found, dice))):
            for index, own in zip(indices, some, strict=True):
                shares.setdefault(name, []).append(best_overlaps(own, torch.tensor(source.pair(index).boxes)))
    heads = [f"k = {count}, IoU {least}" for count in COUNTS for least in LEAST]
    print(f"{'true boxes found':<28}" + "".join(f"{head:>18}" for head in heads))
    for name, parts in shares.items():
        every = torch.cat(parts, 1)
        recalls = [(row >= least).float().mean() for row in every for least in LEAST]
        print(f"{name:<28}" + "".join(f"{recall:>18.2f}" for recall in recalls))
    print(f"({len(source)} scenes of {SIZE} pixels, {every.shape[1]} things)")


def nouns(source: Scenes) -> None:
    pairs = [source.pair(index) for index in range(len(source))]
    phrases = Phrases.learned([caption for pair in pairs for caption in pair.captions])
    right = said = found = true = 0
    for pair in pairs:
        ours = [phrase.split()[-1] for phrase in phrases.of(pair.captions, max(COUNTS))]
        theirs = {tag.split()[-1] for tag in pair.tags}
        right, said = right + sum(noun in theirs for noun in ours), said + len(ours)
        found, true = found + len(theirs & {*ours}), true + len(theirs)
    print(f"\n{right / said:.0%} of {said} phrases end in the noun of a true tag")
    print(f"{found / true:.0%} of {true} true nouns are among them")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scenes", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    source = Scenes.Config(seed=options.seed, test_size=options.scenes, max_things=3).build("test")
    boxes(source)
    nouns(source)


if __name__ == "__main__":
    main()
