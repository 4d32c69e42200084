"""Claims of papers, and our own, as experiments: rows, a rule written before the runs, a verdict (docs/claims.md)."""

from __future__ import annotations

from equipoise.claims import cleaning, coco, explanations, fdt, mixup, photos, photos_mixup, softclip, topology
from equipoise.claims.claim import Claim
from equipoise.settings.nearby import nearest
from equipoise.types import UserError

CLAIMS: dict[str, Claim] = {
    **topology.CLAIMS,
    **softclip.CLAIMS,
    **fdt.CLAIMS,
    **mixup.CLAIMS,
    **coco.CLAIMS,
    **explanations.CLAIMS,
    **cleaning.CLAIMS,
    **photos.CLAIMS,
    **photos_mixup.CLAIMS,
}
# the most telling for the time they take, to be run first
FIRST = (
    "cleaning-pays",
    "held-out-judges",
    "space-order",
    "sphere-needs-temperature",
    "inner-survives-without",
    "smoothing-helps",
    "codes-beat-clip",
    "noise-raises-t",
)


def find_claim(name: str) -> Claim:
    if name in CLAIMS:
        return CLAIMS[name]
    near = nearest(name, CLAIMS)
    hint = f"did you mean {near}?" if near else "`equipoise claims` lists them"
    raise UserError(f'there is no claim "{name}"; {hint}')
