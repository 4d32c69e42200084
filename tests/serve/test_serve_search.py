"""Searching, naming and explaining through the API, against brute force over the same points."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from serve.served import client_of, png, service_of
from starlette.testclient import TestClient

from equipoise.serve.service import Service


@pytest.fixture(scope="module")
def service(finished_run: Path) -> Service:
    return service_of(finished_run)


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[TestClient]:
    with client_of(service) as client:
        yield client


def points(service: Service) -> torch.Tensor:
    return service.first.index.points(range(len(service.first.index))).double()


def given(client: TestClient, data: bytes) -> str:
    answer = client.post("/api/pictures", files={"file": ("a.png", data)})
    assert answer.status_code == 200, answer.text
    return answer.json()["picture"]


def ranked(query: torch.Tensor, service: Service, k: int) -> list[tuple[int, float]]:
    scores = points(service) @ (query / query.norm())
    return [(int(row), float(scores[row])) for row in scores.argsort(descending=True)[:k]]


def found(client: TestClient, **query: object) -> list[tuple[int, float]]:
    answer = client.post("/api/search", json=query)
    assert answer.status_code == 200, answer.text
    return [(hit["row"], hit["score"]) for hit in answer.json()["found"]]


def same(one: list[tuple[int, float]], other: list[tuple[int, float]]) -> None:
    assert [row for row, _ in one] == [row for row, _ in other]
    assert [score for _, score in one] == pytest.approx([score for _, score in other], abs=1e-5)


def test_a_text_finds_what_is_closest_to_it(client, service):
    text = service.first.model.encode_text(["a red star"])[0].double()
    same(found(client, texts=["a red star"], k=5), ranked(text, service, 5))


def test_a_picture_plus_a_text_minus_a_text_is_their_sum_on_the_sphere(client, service):
    model, name = service.first.model, given(client, png())
    red, blue = model.encode_text(["red star", "blue star"]).double()
    picture = model.encode_image([Image.open(io.BytesIO(png()))])[0].double()
    got = found(client, texts=["red star"], without=["blue star"], pictures=[name], k=7)
    same(got, ranked(picture + red - blue, service, 7))


def test_more_like_a_picture_begins_with_itself(client, service):
    got = found(client, rows=[3], k=4)
    assert got[0][0] == 3
    same(got, ranked(points(service)[3], service, 4))


def test_results_carry_names_captions_and_small_pictures(client, service):
    (hit,) = client.post("/api/search", json={"texts": ["a fish"], "k": 1}).json()["found"]
    record = service.first.index.records([hit["row"]])[0]
    assert (hit["name"], hit["caption"], hit["captions"]) == (record.key, record.caption, list(record.captions))
    picture = client.get(f"/api/rows/{hit['row']}/thumbnail")
    assert picture.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(picture.content)).format == "JPEG"


def test_a_sample_to_begin_with_has_no_scores(client):
    some = client.get("/api/sample").json()["found"]
    assert some
    assert {hit["score"] for hit in some} == {None}
    assert len({hit["row"] for hit in some}) == len(some)


def test_names_are_scored_by_a_softmax_at_the_models_logit_scale(client, service):
    model, classes = service.first.model, ["fish", "star", "tree"]
    answer = client.post(
        "/api/classify", json={"picture": given(client, png()), "classes": classes, "template": "a {}"}
    )
    u = model.encode_image([Image.open(io.BytesIO(png()))])[0].double()
    scores = np.array([float(u @ v.double()) for v in model.encode_text(["a fish", "a star", "a tree"])])
    weights = np.exp(float(model.log_scale.detach().exp()) * scores)
    guesses = {one["name"]: one for one in answer.json()["guesses"]}
    for name, score, share in zip(classes, scores, weights / weights.sum(), strict=True):
        assert guesses[name]["similarity"] == pytest.approx(score, abs=1e-5)
        assert guesses[name]["probability"] == pytest.approx(share, abs=1e-4)
    shares = [one["probability"] for one in answer.json()["guesses"]]
    assert shares == sorted(shares, reverse=True)


def test_an_explanation_is_the_models_own(client, service):
    thumbnail = Image.open(io.BytesIO(service.first.index.thumbnail(2))).convert("RGB")
    expected = service.first.model.explain(thumbnail, "a red star")
    got = client.post("/api/explain", json={"row": 2, "text": "a red star"}).json()
    assert got["similarity"] == pytest.approx(expected.similarity, abs=1e-5)
    np.testing.assert_allclose(got["places"], expected.places, atol=1e-5)
    assert [(word["text"], word["start"]) for word in got["words"]] == [("a", 0), ("red", 2), ("star", 6)]


def test_what_is_served_is_told(client, service):
    about = client.get("/api/about").json()
    assert about["models"]["first"]["version"] == service.first.version
    assert about["models"]["first"]["rows"] == len(service.first.index)
    assert about["models"]["first"]["explains"] is True
    assert (about["suspects"], about["codes"]) == (None, False)
    assert about["examples"]


def test_two_models_answer_side_by_side(finished_run, fdt_run):
    service = service_of(finished_run, beside=fdt_run)
    with client_of(service) as client:
        assert list(client.get("/api/about").json()["models"]) == ["first", "beside"]
        answer = client.post("/api/search", json={"texts": ["a red star"], "model": "beside", "k": 3}).json()
        assert answer["model"] == fdt_run.name
    other = service.engines["beside"]
    text = other.model.encode_text(["a red star"])
    expected = other.model.similarity(text, other.index.points(range(len(other.index))))[0].topk(3).indices
    assert [hit["row"] for hit in answer["found"]] == expected.tolist()


def test_the_code_book_shows_codes_and_the_codes_of_a_word(fdt_run):
    with client_of(service_of(fdt_run)) as client:
        assert client.get("/api/about").json()["codes"] is True
        codes = client.get("/api/codes?count=3").json()
        assert codes["total"] >= len(codes["codes"]) == 3
        first = codes["codes"][0]
        assert first["words"]
        assert client.get(f"/api/codes/pictures/{first['pictures'][0]}/thumbnail").status_code == 200
        of_word = client.get("/api/codes?word=red").json()["codes"]
        excess = [one["share"] - one["usual"] for one in of_word]
        assert excess == sorted(excess, reverse=True)
