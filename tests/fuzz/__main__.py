"""`python tests/fuzz`: damaged input of every kind, none of which may end in a traceback, a hang or a silent mistake.

    --cases N      so many random cases (default 100,000: 20 minutes on two cores)
    --only KIND    of one kind alone; may be given several times
    --seed N       of the draw: the same seed draws the same cases
    --corpus       first the kept cases of corpus/, and whether those listed as known still fail
    --known        write known.json anew from what fails in corpus/ now
    --case JSON    one case alone, with all that it said
    --jobs N       processes (default 2)

Prints a table by kind and each distinct failure with a case that shows it. The exit status is 1 if anything fails that
known.json does not list, or if something it lists has been mended: take that out then.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["TOKENIZERS_PARALLELISM"] = "false"
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent)]

import kinds  # noqa: E402
import torch  # noqa: E402
from corpus_cases import KNOWN, kept_cases, known  # noqa: E402
from server import FAILURES, Case, Outcome, outcomes  # noqa: E402

SHOWN = ("fine", "sentence", *FAILURES)


def main() -> int:
    options = _options()
    torch.set_num_threads(1)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="equipoise-fuzz-", dir=memory if memory.is_dir() else None) as scratch:
        seeds = Path(options.seeds or f"{scratch}/seeds").resolve()
        if not seeds.exists():
            write_seeds(seeds)
        fuzz = kinds.Fuzz(seeds)
        fuzz.warm_up(Path(scratch))
        if options.case:
            for case, outcome in outcomes([json.loads(options.case)], fuzz.run, 1, Path(scratch)):
                print(json.dumps(case), outcome.signature, outcome.said, sep="\n")
            return 0
        expected = {} if options.known else known()
        problems = corpus(fuzz, expected, options, Path(scratch)) if options.corpus or options.known else []
        if options.cases:
            problems += random_cases(fuzz, expected, options, Path(scratch))
    for problem in problems:
        print(problem)
    return 1 if problems and not options.known else 0


def write_seeds(seeds: Path) -> None:
    """In another process: threads of a gradient would not survive a fork."""
    made = subprocess.run([sys.executable, HERE / "seeds.py", seeds], capture_output=True, text=True, check=False)
    if made.returncode:
        sys.exit(f"the seeds cannot be written:\n{made.stdout[-2000:]}\n{made.stderr[-4000:]}")


def corpus(fuzz: kinds.Fuzz, expected: dict[str, str], options: argparse.Namespace, scratch: Path) -> list[str]:
    """Kept cases: those that are known must still fail as they did, all others must not."""
    cases = kept_cases()
    chosen = {name: case for name, case in cases.items() if not options.only or case["kind"] in options.only}
    numbered = [{**case, "name": name} for name, case in chosen.items()]
    found = {case["name"]: outcome for case, outcome in outcomes(numbered, fuzz.run, options.jobs, scratch)}
    failing = {name: outcome.signature for name, outcome in sorted(found.items()) if outcome.failed}
    slow = sorted(found, key=lambda name: -found[name].seconds)[:3]
    print(f"{len(found)} kept cases: {len(failing)} fail, {len(expected)} are known to; the slowest:", end=" ")
    print(", ".join(f"{name} ({found[name].seconds:.1f} s)" for name in slow))
    if options.known:
        KNOWN.write_text(json.dumps(failing, indent=1) + "\n", encoding="utf-8")
    new = [f"{name}: {failing[name]}: {found[name].said}" for name in failing if name not in expected]
    mended = [
        f"{name} no longer fails: take it out of {KNOWN.name}"
        for name in expected
        if name in found and name not in failing
    ]
    return [] if options.known else new + mended


def random_cases(fuzz: kinds.Fuzz, expected: dict[str, str], options: argparse.Namespace, scratch: Path) -> list[str]:
    table: dict[str, Counter[str]] = defaultdict(Counter)
    seconds: Counter[str] = Counter()
    examples: dict[tuple[str, str], tuple[int, Case, Outcome]] = {}
    begun = time.monotonic()
    for case, outcome in outcomes(drawn(fuzz, options), fuzz.run, options.jobs, scratch):
        kind = case["kind"]
        table[kind][outcome.kind] += 1
        seconds[kind] += outcome.seconds
        if outcome.failed:
            count, first, shown = examples.get((kind, outcome.signature), (0, case, outcome))
            if len(json.dumps(case)) < len(json.dumps(first)):
                first, shown = case, outcome
            examples[kind, outcome.signature] = (count + 1, first, shown)
    spent = time.monotonic() - begun
    print(f"\n{'kind':<14}{'cases':>8}" + "".join(f"{name:>11}" for name in SHOWN) + f"{'ms each':>9}")
    for kind, row in table.items():
        numbers = "".join(f"{row[name]:>11}" for name in SHOWN)
        print(f"{kind:<14}{row.total():>8}{numbers}{1000 * seconds[kind] / row.total():>9.1f}")
    total = sum(row.total() for row in table.values())
    print(
        f"{total} cases in {spent:.0f} s, {total / spent:.0f} a second, seed {options.seed}, {options.jobs} processes\n"
    )
    allowed = set(expected.values())
    problems = []
    for (kind, signature), (count, case, outcome) in sorted(examples.items()):
        line = f"{kind}: {signature} ({count}): {outcome.said[:150]!r}\n    --case '{json.dumps(case)[:1500]}'"
        if signature in allowed:
            print(f"known: {line}")
        else:
            problems.append(line)
    return problems


def drawn(fuzz: kinds.Fuzz, options: argparse.Namespace) -> Iterator[Case]:
    """Cases of all kinds, mixed, in the order of the seed."""
    names = options.only or list(kinds.KINDS)
    shares = [kinds.KINDS[name].share for name in names]
    random, numbers = Random(options.seed), Counter[str]()
    for _ in range(options.cases):
        name = random.choices(names, shares)[0]
        numbers[name] += 1
        yield fuzz.case(name, numbers[name], options.seed)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--only", action="append", default=[], choices=[*kinds.KINDS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--corpus", action="store_true")
    parser.add_argument("--known", action="store_true")
    parser.add_argument("--case", default="")
    parser.add_argument("--seeds", default="", help="a folder that seeds.py wrote before")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
