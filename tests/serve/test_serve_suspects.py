"""Suspects: the least likely first, and decisions in the file that training reads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from serve.served import client_of, keep_folder, service_of

from equipoise.data.keep.apply import kept_source
from equipoise.data.keep.decisions import DECISIONS, Decisions, read_decisions
from equipoise.data.keep.file import read_keep
from equipoise.data.keep.save_decisions import decided, decision_on, save_decisions
from equipoise.types import UserError


@pytest.fixture
def folder(finished_run: Path, tmp_path: Path) -> Path:
    return keep_folder(finished_run, tmp_path / "cleaned")


def test_the_least_likely_captions_come_first_with_their_pictures(finished_run, folder):
    with client_of(service_of(finished_run, suspects=folder)) as client:
        answer = client.get("/api/suspects?count=5").json()
        rows = [one["row"] for one in answer["suspects"]]
        table, _ = read_keep(folder)
        assert rows == np.argsort(table.right, kind="stable")[:5].tolist()
        assert answer["total"] == len(table)
        first = answer["suspects"][0]
        assert first["name"] == table.keys[rows[0]]
        assert first["right"] == pytest.approx(float(table.right[rows[0]]))
        assert (first["kept"], first["decision"], first["kind"]) == (False, None, "another")
        assert client.get(f"/api/suspects/{rows[0]}/thumbnail").headers["content-type"] == "image/jpeg"
        assert client.get("/api/suspects?start=-1").status_code == 422
        assert client.get("/api/suspects/999999/thumbnail").status_code == 404


def test_decisions_are_those_that_training_goes_by(finished_run, folder, tiny):
    service = service_of(finished_run, suspects=folder)
    with client_of(service) as client:
        kept, dropped, swapped, undone = [one["row"] for one in client.get("/api/suspects?count=4").json()["suspects"]]
        other = int(np.argmax(read_keep(folder)[0].right))
        for row, judgement in (
            (kept, {"decision": "keep"}),
            (dropped, {"decision": "drop"}),
            (swapped, {"decision": "swap", "instead": other}),
            (undone, {"decision": "drop"}),
            (undone, {"decision": None}),
        ):
            answer = client.post(f"/api/suspects/{row}", json=judgement)
            assert answer.status_code == 200, answer.text
            assert answer.json()["suspect"]["decision"] == judgement["decision"]
        assert answer.json()["judged"] == 3
        shown = {one["row"]: one for one in client.get("/api/suspects?count=4").json()["suspects"]}
        assert shown[swapped]["instead"] == service.suspects.text(other)
    table, _ = read_keep(folder)
    found = read_decisions(folder, table)
    assert found.keep == {kept: True, dropped: False, swapped: True}
    assert found.swaps == {swapped: other}
    source = kept_source(tiny.run.training_pairs(), folder, "decision", 0.5)
    assert source.selection["by_hand"] == {"kept": 1, "dropped": 1, "swapped": 1}


def test_what_the_page_from_disk_saved_stays(finished_run, folder):
    table, _ = read_keep(folder)
    save_decisions(folder, table, Decisions(0.3, {5: False}, {}))
    with client_of(service_of(finished_run, suspects=folder)) as client:
        assert client.get("/api/suspects").json()["judged"] == 1
        assert client.post("/api/suspects/7", json={"decision": "keep"}).status_code == 200
    assert read_decisions(folder, table) == Decisions(0.3, {5: False, 7: True}, {})


def test_nothing_is_written_where_one_may_only_look(finished_run, folder):
    with client_of(service_of(finished_run, suspects=folder, read_only=True)) as client:
        answer = client.post("/api/suspects/7", json={"decision": "keep"})
        assert answer.status_code == 403
        assert "--read-only" in answer.json()["error"]
    assert not (folder / DECISIONS).exists()


@pytest.mark.parametrize(
    ("row", "judgement", "status"),
    [
        (7, {"decision": "burn"}, 422),
        (7, {}, 422),
        (7, {"decision": "swap"}, 400),
        (7, {"decision": "keep", "instead": 3}, 400),
        (7, {"decision": "swap", "instead": 10**9}, 404),
        (10**9, {"decision": "keep"}, 404),
        (-1, {"decision": "keep"}, 404),
    ],
)
def test_a_judgement_that_makes_no_sense_writes_nothing(finished_run, folder, row, judgement, status):
    with client_of(service_of(finished_run, suspects=folder)) as client:
        assert client.post(f"/api/suspects/{row}", json=judgement).status_code == status
    assert not (folder / DECISIONS).exists()


def test_damaged_decisions_are_said_and_not_overwritten(finished_run, folder):
    (folder / DECISIONS).write_text("{half")
    with client_of(service_of(finished_run, suspects=folder)) as client:
        answer = client.post("/api/suspects/7", json={"decision": "keep"})
        assert answer.status_code == 400
        assert DECISIONS in answer.json()["error"]
        assert str(folder) not in answer.json()["error"]
    assert (folder / DECISIONS).read_text() == "{half"


def test_data_that_was_cleaned_again_meanwhile_is_noticed(finished_run, folder):
    with client_of(service_of(finished_run, suspects=folder)) as client:
        (folder / "keep.parquet").touch()
        assert client.post("/api/suspects/7", json={"decision": "keep"}).status_code == 409
    assert not (folder / DECISIONS).exists()


def test_a_better_caption_is_of_another_record_and_more_similar(finished_run, folder):
    service = service_of(finished_run, suspects=folder)
    suspects, model = service.suspects, service.first.model
    table, _ = read_keep(folder)
    with client_of(service) as client:
        for one in client.get("/api/suspects?count=8").json()["suspects"]:
            better = client.get(f"/api/suspects/{one['row']}/better").json()
            record = int(suspects.owners[one["row"]])
            picture = model.encode_image(suspects.source.images([record], model.preprocess.size))
            own = float(model.similarity(picture, model.encode_text([one["text"]])))
            likely = [row for row in range(len(table)) if table.keep[row] and suspects.owners[row] != record]
            if better["row"] is None:
                continue
            assert better["row"] in likely
            got = float(model.similarity(picture, model.encode_text([suspects.text(better["row"])])))
            assert got - own == pytest.approx(better["by"], abs=1e-4)
            assert got > own


def test_saved_decisions_read_back_as_they_were(folder):
    table, _ = read_keep(folder)
    decisions = decided(decided(decided(Decisions(), 3, "keep"), 9, "drop"), 4, "swap", 12)
    save_decisions(folder, table, decisions)
    assert read_decisions(folder, table) == decisions
    assert [decision_on(decisions, row) for row in (3, 9, 4, 5)] == ["keep", "drop", "swap", None]
    assert json.loads((folder / DECISIONS).read_text())["version"] == 1
    assert decided(decisions, 4, None).swaps == {}
    for wrong in (("burn", None), ("swap", None), ("keep", 2)):
        with pytest.raises(UserError):
            decided(decisions, 1, *wrong)
