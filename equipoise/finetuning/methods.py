"""Fine-tuning methods; each overrides settings of the start model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """A method; its settings are `recipes/finetune/NAME.toml`."""

    summary: str
    trains: bool = True  # False: it only measures, or only shifts
    shifts: bool = False  # moves images and texts towards each other


METHODS: dict[str, Method] = {
    "wise-ft": Method("all weights, then the best place between start and end (Wortsman et al. 2022)"),
    "ft": Method("all weights, and nothing after that"),
    "lp-ft": Method("the readouts first, then all weights (Kumar et al. 2022)"),
    "lora": Method("low-rank adapters on the towers, merged at the end (Hu et al. 2022)"),
    "m2mix": Method("all weights, with m²-Mix beside CLIP's loss (Oh et al. 2023)"),
    "m3mix": Method("all weights, with m²-Mix and the uni-modal mixups (Oh et al. 2023)"),
    "i-mix": Method("all weights, on pictures mixed pixel by pixel (Lee et al. 2021)"),
    "un-mix": Method("all weights, on pictures and on mixed ones (Shen et al. 2022)"),
    "maple": Method("prompts in both towers and nothing else (Khattak et al. 2023)"),
    "few-shot": Method("all weights, on a few labelled pictures of each class (Oh et al. 2023)"),
    "embedding-shift": Method(
        "no weights: images and texts are moved along the gap between them (Liang et al. 2022)",
        trains=False,
        shifts=True,
    ),
    "zero-shot": Method("nothing: the start model is measured on the new data", trains=False),
}
DEFAULT = "wise-ft"
