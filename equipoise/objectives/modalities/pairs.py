"""Contrast among pairs of modalities: every code against those of another modality, no joint code.

Radford et al. 2021 (CLIP), for each pair of modalities:

    L = 1/|P| Σ_{(a, b) in P} form(exp(t) s(z_a,i, z_b,j), target)

z_a [N, d] the codes of modality a, P the pairs (all, if none are named). With two modalities this is `clip.py`'s loss;
a mean over pairs, so that a further modality does not change how much the contrast weighs beside other losses.
A sample is part of the pairs of which it has both modalities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import torch
from torch import Tensor

from equipoise.forms import CrossEntropy, Form
from equipoise.kernels import Scoring
from equipoise.objectives.modalities.presence import Presence, check_codes, nothing_of, rows_with
from equipoise.targets import OneHot
from equipoise.types import Loss, UserError

Pair = tuple[str, str]


def all_pairs(names: Sequence[str]) -> tuple[Pair, ...]:
    """Every two modalities once, in their order."""
    return tuple(combinations(names, 2))


def contrast_pairs(
    codes: Mapping[str, Tensor],
    scoring: Scoring,
    *,
    pairs: Sequence[Pair] = (),
    form: Form | None = None,
    present: Presence | None = None,
    impl: str = "auto",
) -> Loss:
    """The loss of the pairs (all, if none are given), with a term for each; the form is cross-entropy unless given."""
    check_codes(codes)
    terms, form = {}, form or CrossEntropy()
    for pair in pairs or all_pairs(list(codes)):
        _check_pair(pair, codes)
        rows, cols = rows_with(present, pair, codes[pair[0]], codes[pair[1]])
        terms["-".join(pair)] = (
            scoring.contrast(rows, cols, target=OneHot(), form=form, impl=impl) if len(rows) else nothing_of(rows, cols)
        )
    return Loss(torch.stack(list(terms.values())).mean(), terms)


def _check_pair(pair: Pair, codes: Mapping[str, Tensor]) -> None:
    unknown = [name for name in pair if name not in codes]
    if unknown or len(set(pair)) != 2:
        told = f"there is no modality {unknown[0]!r}" if unknown else "a pair is of two different modalities"
        raise UserError(f"pairs has {list(pair)}, but {told}; choose among {', '.join(codes)}")
