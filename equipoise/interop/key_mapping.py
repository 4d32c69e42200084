"""Names of tensors here and in another library, one row a tensor, read in both directions.

    "image_encoder.transformer.blocks.*.ln_1.weight": KeyRule(("visual.transformer.resblocks.*.ln_1.weight",))

`*` is the number of a block, the first number of a name. Some tensors are laid out in another way too: transposed, or
cut into several. Every way is undone exactly: no number is ever changed, so a round trip is the same bit for bit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
State = Mapping[str, Tensor]


@dataclass(frozen=True)
class Way:
    """How a tensor of ours lies in another library."""

    apart: Callable[[Tensor], Sequence[Tensor]]
    together: Callable[[Sequence[Tensor]], Tensor]


SAME = Way(lambda ours: (ours,), lambda theirs: theirs[0])
TRANSPOSED = Way(lambda ours: (ours.T,), lambda theirs: theirs[0].T)
ONE_ROW = Way(lambda ours: (ours[0],), lambda theirs: theirs[0][None])  # [1, w] and [w]
THIRDS = Way(
    lambda ours: [part.clone() for part in ours.chunk(3)], lambda theirs: torch.cat(list(theirs))
)  # queries, keys, values


@dataclass(frozen=True)
class KeyRule:
    theirs: tuple[str, ...]
    way: Way = SAME


Names = Mapping[str, KeyRule]  # by our name


def same(*pairs: tuple[str, str]) -> dict[str, KeyRule]:
    """Rows of tensors that differ in their names alone."""
    return {ours: KeyRule((theirs,)) for ours, theirs in pairs}


def to_theirs(state: State, names: Names) -> dict[str, Tensor]:
    """Our tensors under their names; those that have none there are left out."""
    made: dict[str, Tensor] = {}
    for name, tensor in state.items():
        template, number = _template(name)
        if template in names:
            row = names[template]
            parts = (part.contiguous() for part in row.way.apart(tensor))
            made |= {_filled(theirs, number): part for theirs, part in zip(row.theirs, parts, strict=True)}
    return made


def to_ours(state: State, names: Names) -> dict[str, Tensor]:
    """Their tensors under our names; a tensor of ours some part of which is missing is left out."""
    made = {}
    rows_by_part = {part: (ours, row) for ours, row in names.items() for part in row.theirs}
    for name in state:
        template, number = _template(name)
        if template not in rows_by_part:
            continue
        ours, row = rows_by_part[template]
        parts = [state.get(_filled(part, number)) for part in row.theirs]
        whole = [part for part in parts if part is not None]
        if len(whole) == len(parts):
            made[_filled(ours, number)] = row.way.together(whole).contiguous()
    return made


def listed(problems: Sequence[str]) -> str:
    """Every problem, those of several blocks that differ in the block's number alone said once: `blocks.{0,1}.x`."""
    numbers: dict[str, list[str]] = {}
    for problem in problems:
        template, number = _template(problem)
        numbers.setdefault(template, []).append(number)
    said = (
        _filled(template, found[0] if len(found) == 1 else "{" + ",".join(found) + "}")
        for template, found in numbers.items()
    )
    return "; ".join(said)


def _template(name: str) -> tuple[str, str]:
    found = NUMBER.search(name)
    return (NUMBER.sub("*", name, count=1), found[0]) if found else (name, "")


def _filled(template: str, number: str) -> str:
    return template.replace("*", number, 1)
