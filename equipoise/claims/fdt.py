"""Chen et al. 2023, "Revisiting Multimodal Representation in Contrastive Learning: From Patch and Token Embeddings to
Finite Discrete Tokens" (FDT): a code book that images and texts share.

How many codes are active depends on the scale of relevance, so every row with codes sweeps it, over the scales at
which its own activation works; rows without sweep as many learning rates.
"""

from __future__ import annotations

from equipoise.claims.arenas import RATES, SCENES, noisy
from equipoise.claims.claim import Claim, Curves, Row
from equipoise.claims.rule import Part, Precondition, ahead, grows, room

PAPER = "chen2023fdt"
CLIP = SCENES.plus("CLIP", noisy(0.4))
SPARSEMAX = (("readout.scale=0.001",), ("readout.scale=0.003",), ("readout.scale=0.01",))
SOFTMAX = (("readout.scale=0.1",), ("readout.scale=1",), ("readout.scale=10",))


def book(name: str, codes: int = 512, activation: str = "sparsemax", base: Row = CLIP) -> Row:
    settings = ("readout.name=code_book", f"readout.codes={codes}", f"readout.activation={activation}")
    sweep = SPARSEMAX if activation == "sparsemax" else SOFTMAX
    return base.plus(name, *settings, sweep=sweep)


def of(recipe: str, name: str, *space: str) -> Row:
    """Another recipe of the demo's family, under the same settings but for its space."""
    settings = tuple(text for text in CLIP.settings if not (space and text.startswith("space.")))
    return Row(name, recipe, (*settings, *space), CLIP.small, RATES)


FDT = book("FDT")
FILIP = of("filip-scenes", "FILIP", "space.name=token_sets", "space.n=64", "space.m=64")  # as wide as the towers
# exchanged words make captions of scenes false, and hidden words cost a short run what they are to give
KIND = ("objective.text_views=caption", "objective.words_ramp=0.5")
DECLIP = of("declip-scenes", "DeCLIP").plus("DeCLIP", *KIND)
DECLIP_FDT = of("declip-fdt-scenes", "DeCLIP + FDT").plus("DeCLIP + FDT", *KIND, sweep=SPARSEMAX)
POOLED = CLIP.plus("pooled tokens", "readout.name=pooled", "readout.pooling=max")
SPARSE = FDT.plus("sparse FDT", "readout.active=0.29", sweep=RATES)
# the scale is set for that share where training starts, and training may leave it
SPARSE_TO_THE_END = Precondition(
    "between 10 and 50% of 512 codes are active at the end", "active codes", (("sparse FDT", 1.0),), 51, 256
)
SIZES = (64, 256, 1024, 4096)
SOFT_BOOK = book("FDT by softmax", activation="softmax")

CLAIMS: dict[str, Claim] = {
    "codes-beat-clip": Claim(
        PAPER, "Tables 2 to 4", "Read out through codes that both towers share, CLIP retrieves better.",
        "Flickr30K R@1 27.6 to 32.6 (t2i), 42.8 to 51.0 (i2t)", rows=(CLIP, FDT), parts=(ahead("FDT", "CLIP"),),
        preconditions=(room("CLIP"),), shown=("mAP@R", "zero-shot", "left out", "active codes"),
    ),
    "codes-beat-pooled-tokens": Claim(
        PAPER, "§1, Fig. 1", "The gain is due to the codes: the same map of tokens, pooled without codes, has less.",
        rows=(CLIP, POOLED, SOFT_BOOK, FDT), parts=(ahead("FDT", "pooled tokens"),),
        preconditions=(room("pooled tokens"),), shown=("mAP@R", "zero-shot", "left out", "active codes"),
        curves=Curves("active codes", trials=("FDT by softmax", "FDT"), levels=("CLIP", "pooled tokens"), log=True),
    ),
    "codes-agree": Claim(
        PAPER, "§4.5, Fig. 4", "A code stands for the same thing in images and in texts, more than a random one does.",
        metric="agreement", rows=(SPARSE,),
        parts=(
            Part("agreement is above that of random codes", "agreement above random", (("sparse FDT", 1.0),), 2.0),
            Part("pointing is above that of random codes", "pointing above random", (("sparse FDT", 1.0),), 2.0),
        ),
        preconditions=(room("sparse FDT"),), shown=("R@1", "active codes"),
    ),
    "sparse-codes-pay": Claim(
        PAPER, "Table 8; §3.2", "Few active codes, as in the paper's regime of 29%, cost nothing in retrieval.",
        rows=(FDT, SPARSE),
        parts=(Part("29% of the codes keep 95% of the best scale's R@1", "R@1",
                    (("sparse FDT", 1.0), ("FDT", -0.95)), 1.0),),
        preconditions=(room("FDT"), SPARSE_TO_THE_END), shown=("active codes", "agreement"),
    ),
    "codes-complete": Claim(
        PAPER, "§4.4, App. C", "A model with codes notices more often that a sentence leaves an object out.",
        "68.2% against 60.6%", metric="left out", rows=(CLIP, FDT), parts=(ahead("FDT", "CLIP", "left out"),),
        preconditions=(room("CLIP", "left out", 50.0, 97.0),), shown=("R@1",),
    ),
    "codes-beat-filip": Claim(
        PAPER, "Table 4", "Codes beat FILIP, which compares every patch with every word.",
        "Flickr30K R@1 51.0 / 32.6 against 46.3 / 30.6", rows=(CLIP, FILIP, FDT),
        parts=(ahead("FDT", "FILIP"),), preconditions=(room("FILIP"),), shown=("mAP@R", "zero-shot", "left out"),
    ),
    "codes-help-declip": Claim(
        PAPER, "Tables 2 to 4", "Codes improve DeCLIP too.",
        "Flickr30K R@1 51.2 / 35.5 to 57.0 / 39.4", rows=(DECLIP, DECLIP_FDT),
        parts=(ahead("DeCLIP + FDT", "DeCLIP"),), preconditions=(room("DeCLIP"),), shown=("mAP@R", "left out"),
    ),
    "more-codes": Claim(
        PAPER, "Table 7", "More codes are better, up to a number that is enough.",
        "zero-shot 42.8, 45.9, 45.2 with 8,192, 16,384, 24,576",
        rows=tuple(book(f"{size} codes", size) for size in SIZES),
        parts=(grows([f"{size} codes" for size in SIZES], "R@1", 0.5, "R@1 grows with the number of codes"),
               ahead("256 codes", "64 codes")),
        preconditions=(room("256 codes"),), shown=("left out", "active codes"),
        curves=Curves("codes", (("FDT", tuple((size, f"{size} codes") for size in SIZES)),), log=True),
    ),
    "sparsemax-beats-softmax": Claim(
        PAPER, "Table 8", "Sparse weights of codes make a better embedding than dense ones.",
        "zero-shot 45.9 against 43.9; rsum level", rows=(CLIP, SOFT_BOOK, FDT),
        parts=(ahead("FDT", "FDT by softmax"), ahead("FDT by softmax", "CLIP", says="codes help without sparsity too")),
        preconditions=(room("CLIP"),), shown=("active codes", "left out"),
    ),
    "weights-as-features": Claim(
        PAPER, "Table 8, rows *",
        "The weights of the codes themselves retrieve where they are sparse, and hardly where they are dense.",
        "Flickr30K rsum 242.4 against 45.5", metric="R@1 by weights", rows=(SOFT_BOOK, FDT),
        parts=(ahead("FDT", "FDT by softmax", "R@1 by weights"),), preconditions=(room("FDT"),),
        shown=("R@1", "active codes"),
    ),
    "codes-at-scale": Claim(
        PAPER, "Table 5", "The gain stays with 30 and 145 million pairs.", "zero-shot +4.4 and +5.0",
        not_testable="data sets of that size are not at hand",
    ),
}  # fmt: skip
