"""Relevance by lists of ids against loops over the definitions, and against eccv_caption's own code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from test_retrieval import dot, oracle, world

from equipoise.data.annotations.caption_ids import CaptionIds, caption_ids, plain_id, read_caption_ids
from equipoise.data.annotations.relevance_files import read_relevance
from equipoise.data.source import Pair
from equipoise.evaluation.ranking import rank_queries, retrieval, retrieval_chance
from equipoise.evaluation.relevance import SparseRelevance, join
from equipoise.types import UserError


@pytest.mark.parametrize("chunk", [1, 7, 1024])
@pytest.mark.parametrize("levels", [None, 1])
def test_lists_give_the_numbers_of_the_matrix(levels, chunk):
    images, texts, owners, dense = world(3, levels=levels)
    sparse = SparseRelevance.of_pairs(*dense.shape, dense.nonzero())
    assert retrieval(images, texts, dot, owners, sparse, chunk) == retrieval(images, texts, dot, owners, dense, chunk)
    assert retrieval_chance(len(images), owners, sparse) == retrieval_chance(len(images), owners, dense)


def test_each_direction_has_queries_of_its_own():
    """As ECCV Caption: some images are judged with all texts, other texts with all images."""
    images, texts, owners, dense = world(5)
    forward, backward = dense.clone(), dense.clone()
    forward[::2], backward[:, ::3] = False, False
    sparse = SparseRelevance(*dense.shape, forward.nonzero(), backward.T.nonzero())
    got = retrieval(images, texts, dot, owners, sparse)
    scores = (images @ texts.T).numpy()
    for name, truth, values in (
        ("image_to_text", forward.numpy(), scores),
        ("text_to_image", backward.numpy().T, scores.T),
    ):
        expected = oracle(values, truth, truth)
        for metric in ("mAP@R", "R-Precision", "true_R@1", "true_queries"):
            assert got[f"{name}_{metric}"] == pytest.approx(expected[metric], abs=1e-12)


def test_no_block_is_larger_than_its_queries():
    """Memory is linear: a block of one query has one row, whatever the rest."""
    sparse = SparseRelevance.of_pairs(1_000_000, 5_000_000, torch.tensor([[3, 4], [999_999, 0]]))
    assert sparse.block(slice(3, 4), by_text=False).nonzero().tolist() == [[0, 4]]
    assert sparse.counts(by_text=True)[[0, 4, 5]].tolist() == [1, 1, 0]


def test_per_query_ranks_average_to_the_metrics():
    images, texts, owners, dense = world(1)
    ranks, numbers = rank_queries(images, texts, dot, owners, dense), retrieval(images, texts, dot, owners, dense)
    for direction, found in ranks.items():
        known = found.precise[~found.precise[:, 0].isnan()]
        assert len(known) == numbers[f"{direction}_true_queries"]
        assert known[:, 0].mean().item() == pytest.approx(numbers[f"{direction}_mAP@R"], abs=1e-12)
        assert (found.first[found.first > 0] <= 5).double().mean().item() == numbers[f"{direction}_R@5"]


class Listed:
    """A source of pairs alone."""

    def __init__(self, *pairs: Pair):
        self.pairs = pairs

    def __len__(self):
        return len(self.pairs)

    def pair(self, index):
        return self.pairs[index]


def test_ids_of_records_of_files_and_of_keys(tmp_path: Path):
    carried = Pair("000042", ("a", "b"), truth={"image_id": 42, "caption_ids": [7, 8]})
    assert caption_ids(Listed(carried, Pair("dog.jpg", ("c",)))) == CaptionIds(
        ["42", "dog.jpg"], [("7", "8"), ("dog.jpg#0",)]
    )
    karpathy, coco = tmp_path / "dataset_coco.json", tmp_path / "captions.json"
    image = {"filename": "a_3.jpg", "cocoid": 3, "sentids": [5, 6], "split": "test", "sentences": [{"raw": "x"}] * 2}
    karpathy.write_text(json.dumps({"images": [image]}))
    annotations = [{"id": 5, "image_id": 3, "caption": "x"}, {"id": 6, "image_id": 3, "caption": "y"}]
    coco.write_text(json.dumps({"images": [{"id": 3, "file_name": "a_3.jpg"}], "annotations": annotations}))
    assert read_caption_ids(karpathy) == read_caption_ids(coco) == {"a_3.jpg": ("3", ("5", "6"))}
    found = caption_ids(Listed(Pair("val2014/a_3.jpg", ("x", "y"))), karpathy)
    assert found.of_texts([0, 0]) == ["5", "6"]
    with pytest.raises(UserError, match="more captions"):
        found.of_texts([0, 0, 0])
    with pytest.raises(UserError, match=r"does not list the picture b\.jpg"):
        caption_ids(Listed(Pair("b.jpg", ("x",))), karpathy)


@pytest.mark.parametrize(
    ("given", "plain"),
    [(42, "42"), ("000042", "42"), ("COCO_val2014_000000391895.jpg", "391895"), ("COCO_val2014:sentid:64", "64"),
     ("a/b.jpg", "a/b.jpg"), ("dog#1", "dog#1")],
)  # fmt: skip
def test_one_thing_has_one_id(given, plain):
    assert plain_id(given) == plain


def test_a_csv_names_pairs_for_both_directions(tmp_path: Path):
    file = tmp_path / "mine.csv"
    file.write_text("image_id,caption_id,grade\n1,10,2\n1,11,0\n2,10,0.5\n")
    found = read_relevance(file)
    assert found.by_image == {"1": ("10",), "2": ("10",)}
    assert found.by_caption == {"10": ("1", "2")}
    joined = join(["1", "2"], ["10", "11"], found.by_image, found.by_caption, "mine.csv")
    assert joined.relevance.block(slice(0, 2), by_text=False).tolist() == [[True, False], [True, False]]
    assert joined.sentence("it") == ""


@pytest.mark.parametrize(
    ("content", "said"),
    [("image,title\n1,2\n", 'no column "caption_id"'), ("image_id,caption_id,grade\n1,2,x\n", "line 2"),
     ("image_id,caption_id\n", "no relevant pair"), ("image_id,caption_id\n1\n", "1 fields"), (b"\xff\xfe", "UTF-8")],
)  # fmt: skip
def test_a_wrong_csv_is_one_sentence(content, said, tmp_path: Path):
    file = tmp_path / "wrong.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=said):
        read_relevance(file)


def test_ids_that_do_not_join_are_one_sentence():
    lists = {"5": ["50"]}
    with pytest.raises(UserError, match="none of its 2 pairs joins"):
        join(["1"], ["10"], lists, {"50": ["5"]}, "eccv.json")
    with pytest.raises(UserError, match="two captions here have the id '10'"):
        join(["1"], ["10", "10"], {"1": ["10"]}, {"10": ["1"]}, "eccv.json")
    partly = join(["1"], ["10"], {"1": ["10", "11"], "2": ["10"]}, {"10": ["1"]}, "eccv.json")
    assert (partly.kept, partly.given) == (2, 4)
    assert "2 of 4 pairs" in partly.sentence("eccv.json")


def test_equals_eccv_captions_own_code(tmp_path: Path):
    """The package's ids, its lists and its loops, on random similarities of a part of its images and captions."""
    package = pytest.importorskip("eccv_caption", reason="pip install eccv_caption to compare with it")
    theirs = package.Metrics()
    random = np.random.default_rng(0)
    chosen = sorted(random.choice(sorted(theirs.eccv_gts["i2t"]), 120, replace=False).tolist())
    captions = sorted({one for image in chosen for one in theirs.coco_gts["i2t"][image]})
    keep_i, keep_t = set(chosen), set(captions)
    lists = {}
    for name in ("coco", "cxc", "eccv"):
        every = getattr(theirs, f"{name}_gts")
        forward = {q: [i for i in some if i in keep_t] for q, some in every["i2t"].items() if q in keep_i}
        backward = {q: [i for i in some if i in keep_i] for q, some in every["t2i"].items() if q in keep_t}
        lists[name] = [{q: some for q, some in one.items() if some} for one in (forward, backward)]
        setattr(theirs, f"{name}_gts", {"i2t": lists[name][0], "t2i": lists[name][1]})
    images, texts = torch.randn(len(chosen), 16), torch.randn(len(captions), 16)
    scores = (images @ texts.T).numpy()
    i2t = {image: [captions[j] for j in np.argsort(-row)] for image, row in zip(chosen, scores, strict=True)}
    t2i = {text: [chosen[j] for j in np.argsort(-row)] for text, row in zip(captions, scores.T, strict=True)}
    wanted = ("coco_5k_recalls", "cxc_recalls", "eccv_map_at_r", "eccv_rprecision", "eccv_r1")
    expected = theirs.compute_all_metrics(i2t, t2i, target_metrics=wanted, Ks=(1, 5, 10), verbose=False)
    owner = {text: number for number, image in enumerate(chosen) for text in theirs.coco_gts["i2t"][image]}
    owners = torch.tensor([owner[text] for text in captions])
    names = {"i2t": "image_to_text", "t2i": "text_to_image"}
    for truth in ("eccv", "cxc"):
        relevance = join(chosen, captions, *lists[truth], truth).relevance
        found = retrieval(images, texts, dot, owners, relevance, 50)
        for way, direction in names.items():
            assert found[f"{direction}_R@5"] == pytest.approx(expected["coco_5k_r5"][way], abs=1e-12)
            if truth == "eccv":
                assert found[f"{direction}_mAP@R"] == pytest.approx(expected["eccv_map_at_r"][way], abs=1e-12)
                assert found[f"{direction}_R-Precision"] == pytest.approx(expected["eccv_rprecision"][way], abs=1e-12)
                assert found[f"{direction}_true_R@1"] == pytest.approx(expected["eccv_r1"][way], abs=1e-12)
            else:
                assert found[f"{direction}_true_R@1"] == pytest.approx(expected["cxc_r1"][way], abs=1e-12)
