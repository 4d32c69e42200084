"""State-dict keys of ours and of another library, one rule per tensor, read in both directions.

    "image_encoder.transformer.blocks.*.ln_1.weight": KeyRule(("visual.transformer.resblocks.*.ln_1.weight",))

`*` is the number of a block, the first number of a key. Some tensors have another layout too: transposed, or split into
several. Every conversion is undone exactly: no number is ever changed, so a round trip is the same bit for bit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
StateDict = Mapping[str, Tensor]


@dataclass(frozen=True)
class Conversion:
    """How a tensor of ours is laid out in another library, there and back."""

    split: Callable[[Tensor], Sequence[Tensor]]
    merge: Callable[[Sequence[Tensor]], Tensor]


SAME = Conversion(lambda ours: (ours,), lambda theirs: theirs[0])
TRANSPOSED = Conversion(lambda ours: (ours.T,), lambda theirs: theirs[0].T)
ONE_ROW = Conversion(lambda ours: (ours[0],), lambda theirs: theirs[0][None])  # [1, w] and [w]
THIRDS = Conversion(
    lambda ours: [part.clone() for part in ours.chunk(3)], lambda theirs: torch.cat(list(theirs))
)  # queries, keys, values


@dataclass(frozen=True)
class KeyRule:
    """Keys of a tensor of ours in another library, and its layout there."""

    theirs: tuple[str, ...]
    conversion: Conversion = SAME


KeyMap = Mapping[str, KeyRule]  # by our key


def renamed(*pairs: tuple[str, str]) -> dict[str, KeyRule]:
    """Rules of tensors that differ in their keys alone."""
    return {ours: KeyRule((theirs,)) for ours, theirs in pairs}


def to_theirs(state: StateDict, key_map: KeyMap) -> dict[str, Tensor]:
    """Our tensors under their keys; those that have none there are left out."""
    theirs: dict[str, Tensor] = {}
    for key, tensor in state.items():
        template, number = _template(key)
        if template in key_map:
            rule = key_map[template]
            parts = (part.contiguous() for part in rule.conversion.split(tensor))
            theirs |= {_filled(their_key, number): part for their_key, part in zip(rule.theirs, parts, strict=True)}
    return theirs


def to_ours(state: StateDict, key_map: KeyMap) -> dict[str, Tensor]:
    """Their tensors under our keys; a tensor of ours some part of which is missing is left out."""
    ours = {}
    rule_of = {their_key: (our_key, rule) for our_key, rule in key_map.items() for their_key in rule.theirs}
    for key in state:
        template, number = _template(key)
        if template not in rule_of:
            continue
        our_key, rule = rule_of[template]
        parts = [state.get(_filled(their_key, number)) for their_key in rule.theirs]
        complete = [part for part in parts if part is not None]
        if len(complete) == len(parts):
            ours[_filled(our_key, number)] = rule.conversion.merge(complete).contiguous()
    return ours


def join_problems(problems: Sequence[str]) -> str:
    """All problems in one line; those of several blocks that differ in the number alone as one: `blocks.{0,1}.x`."""
    numbers: dict[str, list[str]] = {}
    for problem in problems:
        template, number = _template(problem)
        numbers.setdefault(template, []).append(number)
    joined = (
        _filled(template, blocks[0] if len(blocks) == 1 else "{" + ",".join(blocks) + "}")
        for template, blocks in numbers.items()
    )
    return "; ".join(joined)


def _template(key: str) -> tuple[str, str]:
    """The key with `*` for its block's number, and the number."""
    match = NUMBER.search(key)
    return (NUMBER.sub("*", key, count=1), match[0]) if match else (key, "")


def _filled(template: str, number: str) -> str:
    return template.replace("*", number, 1)
