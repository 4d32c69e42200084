"""`equipoise lab tokens`: how much is left with some of the class tokens?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

from torch import Tensor

from equipoise.analysis.report import AnalysisReport
from equipoise.analysis.token_ablation import Measure, Subsets, draw_tokens, sub_spheres, subset_accuracies
from equipoise.data.source import Source, is_labelled
from equipoise.evaluation.encoding import captions, encode_images, labels, prompt_points
from equipoise.evaluation.metrics import percent
from equipoise.evaluation.ranking import retrieval, retrieval_chance
from equipoise.evaluation.retrieval import counted_copies
from equipoise.evaluation.settings import Evaluation
from equipoise.evaluation.zeroshot import zero_shot
from equipoise.models.model import Model
from equipoise.types import UserError
from equipoise.workflows.subject import Subject

TASKS = ("zero_shot", "retrieval")
Mask = Callable[[Tensor], Tensor]


def leave_tokens_out(subject: Subject, task: str, draws: int) -> AnalysisReport:
    """Zero-shot accuracy, or R@1 from text to image, with random subsets of the tokens."""
    model = subject.model()
    m = sub_spheres(model.space)
    measure, chance, what = (_zero_shot if task == "zero_shot" else _retrieval)(model, subject.source())
    found = subset_accuracies(measure, m, draws, subject.seed)
    conclusion = sentence(found, chance, what)
    subsets = [{**asdict(one), "mean": one.mean, "deviation": one.deviation} for one in found]
    numbers = {**subject.facts(), "task": task, "chance": chance, "subsets": subsets}
    return AnalysisReport("tokens", conclusion, numbers, draw_tokens(found, chance, what, conclusion))


def _zero_shot(model: Model, source: Source) -> tuple[Measure, float, str]:
    labelled, truth = labels(source) if is_labelled(source) else ([], None)
    if not is_labelled(source) or truth is None or not labelled:
        raise UserError("this data has no classes; give data whose records carry a label, or --task retrieval")
    images, prompts = encode_images(model, source, 256)[labelled], prompt_points(model, source)

    def measure(mask: Mask) -> float:
        return zero_shot(mask(images), truth, mask(prompts), model.space)["acc1"]

    return measure, 1 / len(source.class_names), "zero-shot accuracy"


def _retrieval(model: Model, source: Source) -> tuple[Measure, float, str]:
    images, caption_set = encode_images(model, source, 256), captions(source, 1)
    texts, owners = caption_set.points(model), caption_set.image_of_text
    copies = counted_copies(source, caption_set, Evaluation())

    def measure(mask: Mask) -> float:
        return retrieval(mask(images), mask(texts), model.similarity, owners, copies=copies)["text_to_image_R@1"]

    chance = retrieval_chance(len(images), owners, copies=copies)["text_to_image_R@1"]
    return measure, chance, "R@1, text to image"


def sentence(found: Sequence[Subsets], chance: float, what: str) -> str:
    whole = found[-1]
    some = ", ".join(f"{percent(one.mean)} ± {percent(one.deviation)} with {one.tokens}" for one in found[:-1])
    return (
        f"{what[0].upper()}{what[1:]} is {percent(whole.mean)} with all {whole.tokens} tokens; with some of them, "
        f"drawn at random, {some}. Guessing gives {percent(chance)}."
    )
