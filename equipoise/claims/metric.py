"""What claims are measured by: names, the numbers of a cell that they are the mean of, and how they are shown.

`{split}` is `test` where a number is reported and `validation` where a trial of a sweep is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean

VALIDATION, TEST = "validation", "test"
WAYS = ("image_to_text", "text_to_image")


@dataclass(frozen=True)
class Metric:
    keys: tuple[str, ...]
    means: str
    factor: float = 100.0  # shares are shown in percent
    digits: int = 1
    less: tuple[str, ...] = ()  # numbers whose mean is taken away
    instead: tuple[str, ...] = ()  # what counts where a cell has none of `keys`

    def of(self, found: Mapping[str, float], split: str = TEST) -> float | None:
        """The value as it is shown, or None where the cell has not measured it."""
        keys, less, instead = (
            [key.format(split=split) for key in names] for names in (self.keys, self.less, self.instead)
        )
        if instead and not any(key in found for key in keys):
            keys = instead
        if not all(key in found for key in (*keys, *less)):
            return None
        taken = mean(found[key] for key in less) if less else 0.0
        return self.factor * (mean(found[key] for key in keys) - taken)


def _both(prefix: str, name: str) -> tuple[str, ...]:
    return tuple(f"{{split}}/{prefix}/{way}_{name}" for way in WAYS)


METRICS: dict[str, Metric] = {
    "R@1": Metric(_both("retrieval", "R@1"), "recall at 1, mean of both directions, %"),
    "two-stage R@1": Metric(_both("two_stage", "R@1"), "recall at 1 after the matching head has ranked again, %"),
    "ranked R@1": Metric(
        _both("two_stage", "R@1"),
        "recall at 1 as a model ranks in the end: in two stages where it has a matching head, %",
        instead=_both("retrieval", "R@1"),
    ),
    "mAP@R": Metric(_both("matching", "mAP@R"), "mAP@R against the many-to-many truth, mean of both directions, %"),
    "zero-shot": Metric(("{split}/zero_shot/acc1",), "zero-shot accuracy of shapes, %"),
    "t": Metric(("t",), "final t, the logarithm of the logit scale", 1.0, 2),
    "unit-free t": Metric(("logit_scale/unit_free_t",), "final t + ln std(similarity of random points)", 1.0, 2),
    "left out": Metric(("{split}/completeness/object left out",), "sentences with an object left out, told apart, %"),
    "R@1 by weights": Metric(_both("weights", "R@1"), "recall at 1 with the weights of codes as features, %"),
    "active codes": Metric(("end/codes/active_image",), "codes with a share in an image", 1.0, 0),
    "agreement": Metric(("{split}/codes/codes_agreement",), "agreement of images and texts on codes, %"),
    "agreement above random": Metric(("agreement_gain",), "agreement minus that of random codes, %"),
    "pointing above random": Metric(("pointing_gain",), "pointing minus that of random codes, %"),
    "mixed above": Metric(("log/mix/above_image", "log/mix/above_text"), "mixed negatives above the positive, %"),
    "negatives above": Metric(("log/batch/texts_above", "log/batch/images_above"), "negatives above the positive, %"),
    "tuned R@1": Metric(_both("tuned", "R@1"), "recall at 1 after fine-tuning, mean of both directions, %"),
    "start R@1": Metric(_both("start", "R@1"), "recall at 1 of the start model on the new data, %"),
    "gained R@1": Metric(
        _both("tuned", "R@1"),
        "recall at 1 after fine-tuning minus that of the start model, %",
        less=_both("start", "R@1"),
    ),
    "shifted R@1": Metric(
        _both("tuned_shifted", "R@1"), "recall at 1 after fine-tuning, mean of shifts that were not fine-tuned on, %"
    ),
    "start shifted R@1": Metric(_both("start_shifted", "R@1"), "the same of the start model, %"),
    "SIMAT": Metric(("{split}/tuned/simat",), "SIMAT score after fine-tuning, λ chosen on dev, 0 to 100", 1.0),
    "start SIMAT": Metric(("{split}/start/simat",), "SIMAT score of the start model, 0 to 100", 1.0),
    "start SIMAT above chance": Metric(
        ("{split}/start/simat",),
        "SIMAT score of the start model minus that of finding any picture",
        1.0,
        less=("{split}/start/simat_test_chance",),
    ),
    "former R@1": Metric(
        tuple(f"former/tuned/{way}_R@1" for way in WAYS), "recall at 1 on what the start model was trained on, %"
    ),
    "start former R@1": Metric(
        tuple(f"former/start/{way}_R@1" for way in WAYS), "recall at 1 of the start model on its own data, %"
    ),
    "forgotten R@1": Metric(
        tuple(f"former/start/{way}_R@1" for way in WAYS),
        "recall at 1 that is lost on what the start model was trained on, %",
        less=tuple(f"former/tuned/{way}_R@1" for way in WAYS),
    ),
    "uniformity": Metric(("{split}/tuned/uniformity",), "uniformity of all points after fine-tuning", 1.0, 3),
    "accuracy": Metric(("{split}/tuned/acc1",), "accuracy after fine-tuning, %"),
    "start accuracy": Metric(("{split}/start/acc1",), "accuracy of the start model, %"),
    "gained accuracy": Metric(
        ("{split}/tuned/acc1",),
        "accuracy after fine-tuning minus that of the start model, %",
        less=("{split}/start/acc1",),
    ),
    "shifted accuracy": Metric(
        ("{split}/tuned/acc1_shifted",), "accuracy after fine-tuning, mean of shifts that were not fine-tuned on, %"
    ),
    "start shifted accuracy": Metric(("{split}/start/acc1_shifted",), "the same of the start model, %"),
    "guide AUC": Metric(
        ("log/guide/auc_image", "log/guide/auc_text"), "pairs alike that a guide scores above others, %"
    ),
    "effective β": Metric(
        ("log/guide/beta_image", "log/guide/beta_text"), "share of the target that others get", 1.0, 3
    ),
    "pointing": Metric(("explain/pointing",), "most relevant place on the named thing, by the default method, %"),
    "Grad-CAM pointing": Metric(("explain/cam_pointing",), "the same by Grad-CAM, %"),
    "Grad-CAM wrong name": Metric(("explain/cam_pointing_other",), "the same, asked with another thing's name, %"),
    "Grad-CAM by name": Metric(("explain/cam_by_name",), "pointing by the right name minus by a wrong one, %"),
    "pointing above Grad-CAM": Metric(("explain/pointing_above_cam",), "pointing minus that of Grad-CAM, %"),
    "decoupling": Metric(("explain/decoupling",), "one minus the mean cosine of class tokens' maps, %"),
    "decoupling above random": Metric(("explain/decoupling_above_random",), "minus that of random maps, %"),
    "decoupling above untrained": Metric(("explain/decoupling_above_untrained",), "minus that before training, %"),
    "kept wrong": Metric(("judged/wrong_among_kept",), "kept captions that are wrong, %"),
}
