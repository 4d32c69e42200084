"""`equipoise claims run`: the cells that are missing, side by side; a table, a figure and a verdict for each claim."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import equipoise
from equipoise.claims import CLAIMS, find_claim
from equipoise.claims.claim import GPU, SMALL, Claim
from equipoise.claims.result import NEVER, RESULTS, Result, verdict_of
from equipoise.io.atomic import replacing
from equipoise.io.figures import png
from equipoise.io.folder_lock import only_writer
from equipoise.io.numbers import hand_over
from equipoise.io.progress import Progress
from equipoise.ops.tf32 import can_tf32
from equipoise.training.device import torch_device
from equipoise.types import UserError
from equipoise.workflows.claims import plan
from equipoise.workflows.claims.cell import CELLS, Cell
from equipoise.workflows.claims.make import NOWHERE, PLAIN, Ways, make_cell
from equipoise.workflows.claims.pool import as_asked
from equipoise.workflows.claims.show import drawn, print_claim, verdict_numbers

ALL = "all"
REPOSITORY = Path(equipoise.__file__).parents[1]
SEEDS = {SMALL: 2, GPU: 5}


def run_claims(
    names: Sequence[str],
    scale: str = SMALL,
    seeds: int | None = None,
    jobs: int = 1,
    out: Path = Path("claims"),
    minutes: float | None = None,
    commit: str = "",
    device: str = "auto",
    folders: Mapping[str, Path] = NOWHERE,
    ways: Ways = PLAIN,
) -> int:
    """Run claims by their names, or all of them; returns 0, or 1 where cells are missing at the end."""
    claims = {name: find_claim(name) for name in dict.fromkeys(CLAIMS if ALL in names else names)}
    claims = _with_folders(claims, folders, skip=ALL in names)
    tested = {name: claim for name, claim in claims.items() if not claim.not_testable}
    seeds = SEEDS[scale] if seeds is None else seeds
    if seeds < 1 or jobs < 1:
        raise UserError(f"--seeds is {seeds} and --jobs is {jobs}; both must be at least 1")
    if ways.tf32 and not can_tf32(torch_device(device)):
        raise UserError(f"--tf32 needs a GPU with tensor cores, which {torch_device(device)} is not; leave it out")
    if ways.cuda_graphs and torch_device(device).type != "cuda":
        raise UserError(f"--cuda-graphs needs an NVIDIA GPU, which {torch_device(device)} is not; leave it out")
    until = None if minutes is None else time.monotonic() + 60 * minutes
    with only_writer(out / CELLS), _told_if_stopped():
        commit = commit or known_commit()
        make = partial(make_cell, folder=out, device=device, commit=commit, folders=folders, ways=ways)
        problems = _make_missing(make, list(tested.values()), scale, seeds, jobs, out, until)
    unfinished = []
    for name, claim in claims.items():
        result = plan.gathered(name, claim, scale, seeds, out) if name in tested else None
        _tell(name, claim, result, out)
        unfinished += [name] if result and not _is_whole(result, seeds) else []
    for problem in problems:
        print(f"failed: {problem}")
    if scale == SMALL:
        print(f"\nNO VERDICT: {NEVER}")
    if unfinished:
        print(f"\nCells are missing ({', '.join(unfinished)}); the same command goes on with them")
    hand_over({"unfinished": unfinished, "folder": str(out)})
    return 1 if unfinished else 0


def _with_folders(claims: dict[str, Claim], folders: Mapping[str, Path], skip: bool) -> dict[str, Claim]:
    """Those whose data is there; raises UserError for one that was named and whose data is not."""
    found = {}
    for name, claim in claims.items():
        needed = {"features": claim.features, "data": claim.data}
        option = next((option for option, files in needed.items() if files and option not in folders), "")
        for folder, files in ((folders[option], files) for option, files in needed.items() if option in folders):
            if lacking := [file for file in files if not (folder / file).is_file()]:
                raise UserError(f"{_needs(name, files)}, and {folder} has no {lacking[0]}; see docs/claims.md")
        if not option:
            found[name] = claim
        elif skip:
            print(f"{name} is left out: it needs --{option}")
        else:
            raise UserError(f"{_needs(name, needed[option])}, and --{option} is not given; see docs/claims.md")
    return found


def _needs(name: str, files: Sequence[str]) -> str:
    return f"{name} needs a folder with {', '.join(files)}"


@contextmanager
def _told_if_stopped() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; what is done is kept, and the same command goes on") from None


def _make_missing(
    make: Callable[[Cell], str],
    claims: Sequence[Claim],
    scale: str,
    seeds: int,
    jobs: int,
    out: Path,
    until: float | None,
) -> list[str]:
    """Cells as `plan.next_cell` has them; what went wrong, in sentences."""
    most, begun, problems = plan.count(claims, scale, seeds), set[Cell](), list[str]()
    done = len({cell for cell in plan.known_cells(claims, scale, seeds, out) if cell.is_done(out)})

    def ask() -> tuple[Cell, Callable[[], str]] | None:
        cell = plan.next_cell(claims, scale, seeds, out, begun)
        if cell is None:
            return None
        begun.add(cell)
        return cell, partial(make, cell)

    with Progress(most, "cells", already=done) as progress:
        for cell, problem in as_asked(ask, jobs, until):
            done += 1
            problems += [f"{cell.name}, seed {cell.seed}: {problem}"] if problem else []
            progress.update(min(done, most), last=cell.name, seed=str(cell.seed))
    return problems


def _is_whole(result: Result, seeds: int) -> bool:
    """Whether every row has every seed, or says why not."""
    return (
        all(
            row.failed or (row.values and all(None not in column for column in _primary(row.values)))
            for row in result.rows.values()
        )
        and seeds > 0
    )


def _primary(values: Mapping[str, Sequence[float | None]]) -> list[Sequence[float | None]]:
    return list(values.values())[:1]


def _tell(name: str, claim: Claim, result: Result | None, out: Path) -> None:
    verdict = verdict_of(claim, result)
    print_claim(name, claim, result, verdict)
    hand_over({name: verdict_numbers(claim, result, verdict)})
    if result:
        result.write(out / RESULTS / f"{name}.json")
        figure = drawn(name, claim, result, verdict)
        if figure:
            with replacing(out / RESULTS / f"{name}.png") as temporary:
                temporary.write_bytes(png(figure))
            print(f"The figure is {out / RESULTS / f'{name}.png'}")


def known_commit() -> str:
    """The commit of the package's own repository, with a + where files were changed since; "" where there is none."""
    if not (REPOSITORY / ".git").exists():
        return ""
    try:
        commit = _git("rev-parse", "--short=10", "HEAD")
        return commit + "+" * bool(_git("status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(*words: str) -> str:
    asked = ["git", "-C", str(REPOSITORY), *words]
    return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
