"""What the papers show by pictures of where a model looks, as numbers, on scenes, where the place of every named thing
is known (`analysis/explain/scoring/`): SoftCLIP's words ground, Multi's class tokens decouple.

Cells are of a kind of their own: trained as the others are, then explained, which takes its time.
"""

from __future__ import annotations

from dataclasses import replace

from equipoise.claims import softclip, topology
from equipoise.claims.claim import Claim
from equipoise.claims.rule import Part, Precondition, ahead, room

KIND = "explained"
CLIP, SOFTCLIP, MULTI = (replace(row, kind=KIND) for row in (softclip.PAIRS, softclip.SOFTCLIP, topology.MULTI))
NAMED, BY_DEFAULT, WRONG = "Grad-CAM pointing", "pointing", "Grad-CAM wrong name"


def reads_names(row: str) -> Precondition:
    """Maps of a model that does not read the name are the same for every name."""
    return Precondition("Grad-CAM follows the name", "Grad-CAM by name", ((row, 1.0),), least=2.0)


CLAIMS: dict[str, Claim] = {
    "softclip-words-ground": Claim(
        softclip.PAPER, "Fig. 4b", "Grad-CAM of a noun lies on the thing more often in SoftCLIP than in CLIP.",
        "pictures alone", metric=NAMED, rows=(CLIP, SOFTCLIP), parts=(ahead(SOFTCLIP.name, CLIP.name, NAMED),),
        preconditions=(room(CLIP.name), reads_names(CLIP.name), softclip.knows(SOFTCLIP.name)),
        shown=(WRONG, BY_DEFAULT, "R@1"),
    ),
    "tokens-decouple": Claim(
        topology.PAPER, "Fig. 7", "The class tokens of a Multi model look at different places of a picture.",
        "pictures alone", metric="decoupling", rows=(MULTI,),
        parts=(
            Part("maps of tokens are further apart than random ones", "decoupling above random",
                 ((MULTI.name, 1.0),), 2.0),
            Part("maps of tokens are further apart than before training", "decoupling above untrained",
                 ((MULTI.name, 1.0),), 2.0),
        ),
        preconditions=(room(MULTI.name),), shown=(BY_DEFAULT, "R@1"),
    ),
    "attention-gradients-point": Claim(
        "", "docs/explain.md", "Gradients of attention point at named things more often than Grad-CAM does.",
        metric=BY_DEFAULT, rows=(CLIP,),
        parts=(Part("pointing is above Grad-CAM's", "pointing above Grad-CAM", ((CLIP.name, 1.0),), 2.0),),
        preconditions=(room(CLIP.name),), shown=(NAMED, "R@1"),
    ),
}  # fmt: skip
