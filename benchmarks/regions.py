"""How many of the true boxes and nouns of scenes are found without a detector: `python benchmarks/regions.py`.

Boxes: the share of a scene's things that one of the k surest boxes of `salient` overlaps (intersection over union) by
so much, beside boxes of the same sizes in random places. Nouns: captions' phrases against the scene's true tags,
by their last words. The settings of both were chosen on scenes of seed 0; these are of seed 1, in the test split.

`--found FOLDER --data SHARDS` instead: of what `equipoise regions` wrote of real pictures, how many tags stand in a
caption of their picture, and how many in the captions of another one.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import torch
from torch import Tensor

from equipoise.data.files.regions import RegionFiles
from equipoise.data.files.webdataset import Shards
from equipoise.data.scenes.corpus import Scenes
from equipoise.detection import Phrases
from equipoise.detection.saliency import overlaps, salient_boxes

COUNTS, LEAST = (3, 10), (0.3, 0.5)
SIZE, CHUNK = 128, 50  # pixels of a scene, scenes at once
PEOPLE = {
    *("man", "men", "woman", "women", "boy", "boys", "girl", "girls", "child", "children", "kid", "kids"),
    *("people", "player", "players", "baby", "lady", "guy"),
}


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


def named(tag: str, words: set[str]) -> bool:
    noun = tag.rsplit(maxsplit=1)[-1]
    return bool(words & {noun, f"{noun}s", f"{noun}es"} or (noun == "person" and words & PEOPLE))


def tags(folder: Path, data: str) -> None:
    """Tags against captions: a picture's own, and those of the picture half a set away."""
    found, source = RegionFiles(folder), Shards(train=data, validation=data).build("train")
    pairs = [source.pair(index) for index in range(len(source))]
    words = [set(re.findall("[a-z]+", " ".join(pair.captions).lower())) for pair in pairs]
    there = [index for index, pair in enumerate(pairs) if found.tags(pair.key)]
    print(f"{len(there):,} of {len(pairs):,} pictures have tags")
    for name, left_out in (("all tags", set[str]()), ("without people", {"person"})):
        said = [(index, tag) for index in there for tag in set(found.tags(pairs[index].key)) - left_out]
        own = sum(named(tag, words[index]) for index, tag in said)
        other = sum(named(tag, words[(index + len(pairs) // 2) % len(pairs)]) for index, tag in said)
        shares = (f"{hits / max(1, len(said)):.0%}" for hits in (own, other))
        print(
            "{}: {:,}, {} of them in a caption of their picture, {} in one of another".format(name, len(said), *shares)
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--found", type=Path, help="a folder of `equipoise regions`")
    parser.add_argument("--data", help="the shards it was made of")
    parser.add_argument("--scenes", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.found:
        if not options.data:
            parser.error("--found needs --data, the shards that the regions are of")
        return tags(options.found, options.data)
    source = Scenes.Config(seed=options.seed, test_size=options.scenes, max_things=3).build("test")
    boxes(source)
    nouns(source)


if __name__ == "__main__":
    main()
