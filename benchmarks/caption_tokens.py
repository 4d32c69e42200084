"""How often `ptb_tokens` differs from Stanford's PTBTokenizer, which pycocoevalcap runs.

    python benchmarks/caption_tokens.py SHARD.tar [SHARD.tar ...] [--captions 1000]

Shards are WebDataset's, captions the lines of their .txt files. It needs Java and `pip install pycocoevalcap`.
"""

from __future__ import annotations

import argparse
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path

from equipoise.evaluation.captions.ptb import ptb_tokens


def captions(shard: Path) -> Iterator[str]:
    with tarfile.open(shard) as files:
        for member in files:
            if member.name.endswith(".txt") and (content := files.extractfile(member)) is not None:
                yield from (line.strip() for line in content.read().decode().splitlines() if line.strip())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("shards", nargs="+", type=Path)
    parser.add_argument("--captions", type=int, default=0, help="so many, drawn at random; 0 takes all")
    options = parser.parse_args()
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    texts = list(dict.fromkeys(text for shard in options.shards for text in captions(shard)))
    if options.captions:
        texts = random.Random(0).sample(texts, options.captions)
    theirs = PTBTokenizer().tokenize({number: [{"caption": text}] for number, text in enumerate(texts)})
    different = [text for number, text in enumerate(texts) if " ".join(ptb_tokens(text)) != theirs[number][0]]
    print(f"{len(texts):,} captions, {len(different)} with other tokens")
    for text in different[:20]:
        print("   ", text)


if __name__ == "__main__":
    main()
