"""Retrieval in two stages against a reading of it in loops: candidates by points, ranks by the matching head."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from conftest import TINY_SETTINGS
from plain_sources import Plain

from equipoise.config import load_run
from equipoise.data.source import Source
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.evaluation.encoding import Encoded
from equipoise.evaluation.evaluate import evaluate
from equipoise.evaluation.settings import Evaluation
from equipoise.evaluation.two_stage import TwoStage, wanted_k
from equipoise.models.model import Model
from equipoise.types import UserError
from equipoise.workflows import build_model, load, run_recipe

FUSED = (*TINY_SETTINGS, "objective.fusion.layers=1")


@pytest.fixture(scope="module")
def source() -> Source:
    return Plain(load_run("albef-scenes", (*FUSED, "data.test_size=12")).run.data.build("test"))


@pytest.fixture(scope="module")
def fused(tokens: CaptionTokenizer) -> Model:
    torch.manual_seed(1)
    model = build_model(load_run("albef-scenes", FUSED).run, tokens).eval()
    torch.nn.init.normal_(model.heads["fusion"].match.weight)
    return model


def aloud(model: Model, source: Source, k: int, captions: int) -> tuple[dict[str, float], int]:
    """R@1, R@5 and R@10 of both directions, and how many pairs were judged."""
    texts = [text for i in range(len(source)) for text in source.pair(i).captions[: captions or None]]
    owner = [i for i in range(len(source)) for _ in source.pair(i).captions[: captions or None]]
    pictures = source.images(range(len(source)), model.preprocess.side)
    close = model.similarity(model.encode_image(pictures), model.encode_text(texts))
    judged: dict[tuple[int, int], float] = {}

    def odds(i: int, t: int) -> float:
        if (i, t) not in judged:
            judged[i, t] = float(model.match(pictures[i : i + 1], [texts[t]]))
        return judged[i, t]

    found = {}
    for direction, table in (("image_to_text", close), ("text_to_image", close.T)):
        hits = []
        for query, row in enumerate(table.tolist()):
            order = sorted(range(len(row)), key=lambda item: -row[item])
            scored = [(odds(*((query, c) if direction == "image_to_text" else (c, query))), c) for c in order[:k]]
            ranking = [c for _, c in sorted(scored, key=lambda pair: -pair[0])] + order[k:]
            right = [owner[c] == query if direction == "image_to_text" else owner[query] == c for c in ranking]
            hits.append(right.index(True) + 1)
        found |= {f"{direction}_R@{k}": sum(hit <= k for hit in hits) / len(hits) for k in (1, 5, 10)}
    return found, len(judged)


@pytest.mark.parametrize(("k", "captions"), [(1, 1), (3, 1), (12, 1), (4, 2)])
def test_two_stages_read_aloud(fused, source, k, captions):
    settings = Evaluation(rerank=k, captions=captions, copies="misses", chunk=5)
    found = TwoStage()(Encoded(fused, source, settings)).metrics
    expected, pairs = aloud(fused, source, k, captions)
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-12)
    assert (found["rerank_k"], found["pairs_scored"]) == (k, pairs)
    assert pairs <= k * (12 + 12 * captions)


def test_one_candidate_is_the_first_stage(fused, source):
    settings = Evaluation(rerank=1, copies="misses")
    found = evaluate(fused, source, settings)
    one, two = found["retrieval"].metrics, found["two_stage"].metrics
    assert {name: two[name] for name in one} == pytest.approx(one)
    assert found["two_stage"].chance == found["retrieval"].chance


def test_processes_that_share_the_work_find_the_same(fused, source, monkeypatch):
    """Each of two processes judges its half: put together by hand, for there is one process here."""
    whole = TwoStage()(Encoded(fused, source, Evaluation(rerank=3))).metrics
    halves = []

    def both(total, size, encode):
        each = -(-total // 2)
        parts = [range(total)[rank * each : (rank + 1) * each] for rank in (0, 1)]
        chunks = [part[start : start + size] for part in parts for start in range(0, len(part), size)]
        halves.append(len(chunks))
        return torch.cat([encode(chunk) for chunk in chunks])

    monkeypatch.setattr(fused, "encode_all", both)
    assert TwoStage()(Encoded(fused, source, Evaluation(rerank=3))).metrics == pytest.approx(whole)
    assert halves


def test_a_gallery_smaller_than_k_is_one_sentence(fused, source):
    with pytest.raises(UserError, match=r"evaluation\.rerank is 13, but there are 12 images to rank"):
        TwoStage()(Encoded(fused, source, Evaluation(rerank=13)))
    with pytest.raises(UserError, match="there are 5 texts to rank; set it to 5 at most"):
        wanted_k(7, 9, 5)
    assert (wanted_k(0, 9, 5), wanted_k(0, 900, 500), wanted_k(500, 900, 500)) == (5, 32, 500)
    with pytest.raises(UserError, match="rerank must be at least 0"):
        Evaluation(rerank=-1)


def test_a_model_without_a_matching_head_says_so(model):
    assert not TwoStage().suits(model)
    with pytest.raises(UserError, match="no matching head"):
        model.match(torch.zeros(1, 3, 32, 32, dtype=torch.uint8), ["a red fish"])


def test_pairs_are_judged_one_by_one(fused, source):
    pictures = source.images(range(3), fused.preprocess.side)
    texts = [source.pair(i).captions[0] for i in range(3)]
    together = fused.train().match(pictures, texts)
    assert fused.training
    fused.eval()
    alone = torch.cat([fused.match(pictures[i : i + 1], texts[i : i + 1]) for i in range(3)])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)
    with pytest.raises(UserError, match="3 images and 2 texts"):
        fused.match(pictures, texts[:2])


@pytest.mark.slow
def test_a_finished_run_reports_both_stages(tmp_path: Path):
    settings = (*FUSED, "objective.queue=64", "evaluation.rerank=4")
    assert run_recipe("tcl-scenes", settings, tmp_path / "run", command="equipoise train tcl-scenes") == 0
    found = json.loads((tmp_path / "run" / "results" / "two_stage.json").read_text())["metrics"]
    assert found["rerank_k"] == 4
    assert 4 * 16 <= found["pairs_scored"] <= 2 * 4 * 16
    model = load(tmp_path / "run")
    assert model.match(torch.zeros(1, 3, 32, 32, dtype=torch.uint8), ["a red fish"]).isfinite().all()
    assert "pairs judged" in (tmp_path / "run" / "report.html").read_text()
