"""METEOR and SPICE by their authors' programs, which are Java and come with pycocoevalcap; nothing here imitates them.

    pip install pycocoevalcap          # 105 MB, and Java; SPICE fetches CoreNLP on its first use

Raises UserError where either is missing. Tokens are those of `ptb.py`.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from equipoise.evaluation.captions.metrics import check_captions
from equipoise.evaluation.captions.ptb import ptb_tokens
from equipoise.types import UserError


def meteor(references: Sequence[Sequence[str]], candidates: Sequence[str]) -> float:
    """METEOR 1.5 (Denkowski & Lavie 2014) of one caption per image."""
    return _score("meteor", "Meteor", references, candidates)


def spice(references: Sequence[Sequence[str]], candidates: Sequence[str]) -> float:
    """SPICE 1.0 (Anderson et al. 2016) of one caption per image."""
    return _score("spice", "Spice", references, candidates)


def _score(module: str, name: str, references: Sequence[Sequence[str]], candidates: Sequence[str]) -> float:
    check_captions(references, candidates)
    if not shutil.which("java"):
        raise UserError(f"{name.upper()} is a Java program, and there is no java on the path; install Java")
    if find_spec("pycocoevalcap") is None:
        raise UserError(f"{name.upper()} comes with pycocoevalcap, which is not installed: pip install pycocoevalcap")
    scorer: Any = getattr(import_module(f"pycocoevalcap.{module}.{module}"), name)()
    wanted = {n: [" ".join(ptb_tokens(one)) for one in several] for n, several in enumerate(references)}
    made = {n: [" ".join(ptb_tokens(text))] for n, text in enumerate(candidates)}
    return float(scorer.compute_score(wanted, made)[0])
