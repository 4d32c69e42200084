"""Where a model of a cell looks: pointing at named things of test scenes, and how far apart class tokens are."""

from __future__ import annotations

import torch

from equipoise.analysis.explain.relevance import allowed_methods, require_words
from equipoise.analysis.explain.scoring.scenes import questions
from equipoise.analysis.explain.scoring.score import score_method, score_tokens
from equipoise.config import Run
from equipoise.models.model import Model
from equipoise.workflows.load import build_model

PAIRS = 300  # named things that are asked for
PAPERS = "grad_cam"  # the method of the papers' pictures


def explanations(model: Model, run: Run, seed: int) -> dict[str, float]:
    """`explain/...` of the default method, of Grad-CAM, and of class tokens where there are several, beside an
    untrained model's."""
    require_words(model)
    model.eval()
    source = run.data.build("test")
    asked = questions(source, PAIRS)
    default = allowed_methods(model)[0]
    own, cam = (score_method(model, source, asked, method, seed) for method in (default, PAPERS))
    found = {
        "explain/pointing": own.pointing, "explain/pointing_other": own.pointing_other, "explain/energy": own.energy,
        "explain/cam_pointing": cam.pointing, "explain/cam_pointing_other": cam.pointing_other,
        "explain/cam_by_name": cam.pointing - cam.pointing_other,
        "explain/pointing_above_cam": own.pointing - cam.pointing,
    }  # fmt: skip
    if tokens := score_tokens(model, source, asked, default, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            untrained = build_model(run, model.tokenizer).to(model.device).eval()
        before = score_tokens(untrained, source, asked, default, seed)["decoupling"]
        apart = tokens["decoupling"]
        found |= {"explain/decoupling": apart, "explain/decoupling_above_untrained": apart - before}
        found["explain/decoupling_above_random"] = apart - tokens["decoupling_random"]
    return found
