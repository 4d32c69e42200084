"""The charts that a report shows of a run: title, keys of metrics.jsonl, and what to look for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PREFIX = "validation/"
WAYS = {"text → image": "text_to_image", "image → text": "image_to_text"}


@dataclass(frozen=True)
class Chart:
    """One picture: lines over steps, on one axis."""

    title: str
    lines: Mapping[str, str]  # label -> key in the records; one line needs no label
    note: str = ""  # what to look for
    percent: bool = False
    marks: Mapping[str, float] = field(default_factory=dict)  # label -> height of a dashed line


BATCH = (  # how hard the batch is for the model
    Chart(
        "Matches and closest negatives, in the batch",
        {"match": "batch/positive", "closest text": "batch/closest_text", "closest image": "batch/closest_image"},
        "Mean similarity. Matches should rise above the closest negatives.",
    ),
    Chart(
        "Negatives above the match, in the batch",
        {"texts": "batch/texts_above", "images": "batch/images_above"},
        "Share that is closer than the match.",
        percent=True,
    ),
    Chart(
        "Mixed negatives above the match",
        {"to images": "mix/above_image", "to texts": "mix/above_text"},
        "The same of the negatives that m²-Mix made, with the share it drew.",
        percent=True,
    ),
)
GEOMETRY = (  # where held-out points lie
    Chart(
        "Alignment, held-out pairs",
        {way: f"{PREFIX}{key}_alignment" for way, key in WAYS.items()},
        "How much closer matches are than the closest of the rest. Higher is better.",
    ),
    Chart("Uniformity, held-out pairs", {"": f"{PREFIX}uniformity"}, "How evenly all points are spread."),
    Chart("Modality gap, held-out pairs", {"": f"{PREFIX}modality_gap"}, "Between the means of images and texts."),
)
MODALITIES = (  # named modalities
    Chart(
        "Accuracy over subsets of modalities, held-out samples",
        {
            "mean of codes": f"{PREFIX}mean_accuracy",
            "joint encoder": f"{PREFIX}mean_joint_accuracy",
            "zeros for the rest": f"{PREFIX}mean_zeroed_accuracy",
        },
        "Mean over all subsets, by each way to read one. Higher is better.",
        percent=True,
    ),
    Chart(
        "Recall among modalities, held-out samples",
        {"": f"{PREFIX}modal_mean_recall"},
        "Mean of R@1, R@5 and R@10 over all pairs of modalities, both ways.",
        percent=True,
    ),
)
GUIDE = (  # what softens the targets
    Chart(
        "What the guide leaves to the match",
        {"of images": "guide/match_image", "of texts": "guide/match_text"},
        "Share of the guide's softmax. Near 100% nothing is softened.",
        percent=True,
    ),
    Chart(
        "Whom the guide gives the rest to",
        {"of images": "guide/negatives_image", "of texts": "guide/negatives_text"},
        "So many others, as if evenly. Near all of the batch it tells nobody from anybody.",
    ),
    Chart(
        "What the guide knows",
        {"of images": "guide/auc_image", "of texts": "guide/auc_text"},
        "Pairs that are truly alike score above others with this chance; 50% is nothing.",
        percent=True,
    ),
)
CODES = (  # the code book
    Chart("Active codes", {way: f"codes/active_{way}" for way in ("image", "text")}, "With a share in a sample."),
    Chart(
        "Codes used alike",
        {way: f"codes/perplexity_{way}" for way in ("image", "text")},
        "exp of the entropy of usage; a fall to a few means that the code book collapses.",
    ),
    Chart(
        "Codes shared and dead",
        {"shared by a pair": "codes/overlap", "dead": "codes/dead"},
        "How much of an image's codes its text has too; codes that hardly anything uses.",
        percent=True,
    ),
)
OPTIMIZER = (  # how training went
    Chart("Learning rate", {"": "learning_rate"}, "Warms up, then follows its schedule."),
    Chart("Gradient norm", {"": "grad_norm"}, "Before clipping; spikes are hard batches."),
    Chart("Pairs per second", {"": "pairs_per_second"}, "Speed of training."),
)


def charts(clamp: float | None = None, course: str = "") -> tuple[Chart, ...]:
    """What a run shows; `clamp` is the largest value the logit scale may take, `course` says how it went."""
    recalls = {way: f"{PREFIX}{key}_R@1" for way, key in WAYS.items()}
    return (
        Chart("Recall at 1, held-out pairs", recalls, "Higher is better.", percent=True),
        *MODALITIES,
        Chart("Loss", {"": "loss"}, "Falls fast, then slowly."),
        _logit_scale(clamp, course),
        *BATCH,
        *GEOMETRY,
        *GUIDE,
        Chart("Bias of the logits", {"": "bias"}, "Added to every logit before its sigmoid."),
        *CODES,
        *OPTIMIZER,
    )


def _logit_scale(clamp: float | None, course: str) -> Chart:
    note = f"How far similarities are stretched: 1/τ, the inverse of the temperature. {course}".strip()
    return Chart("Logit scale exp(t)", {"": "logit_scale"}, note, marks={} if clamp is None else {"clamp": clamp})
