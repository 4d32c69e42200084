"""The share of wrong pairs read by captions that surely are wrong, from the command line to P(right)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from equipoise.analysis.noise import SAMPLE
from equipoise.analysis.noise_by_decoys import TIMES, many_decoys, share_by_decoys
from equipoise.cli import main
from equipoise.data.keep.file import NOTE, read_keep
from equipoise.types import UserError
from equipoise.workflows.audit import Audit
from equipoise.workflows.audit import judge as judging


@pytest.fixture(scope="module")
def by_likelihood(tmp_path_factory, noisy) -> Path:
    folder = tmp_path_factory.mktemp("cleaned") / "features"
    assert main(["clean", "features", *noisy, "--out", str(folder), "--show", "0"]) == 0
    return folder


def test_the_same_judges_read_by_decoys(by_likelihood, noisy, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "by decoys"
    shutil.copytree(by_likelihood, folder)
    seen, expected = [], []
    judge = judging.judge

    def watched(points, model, seed, *rest):
        found = judge(points, model, seed, *rest)
        decoys = many_decoys(points, model.space.similarity, found.reading.scale, SAMPLE, seed)
        expected.append(share_by_decoys(found.log_ratio.numpy(), found.image_of_text.numpy(), decoys)[0])
        seen.append(found)
        return found

    monkeypatch.setattr(judging, "judge", watched)
    words = ["clean", "features", *noisy, "--out", str(folder), "--show", "0", "--set", "clean.reading=decoys"]
    assert main(words) == 0
    assert "Training a judge" not in capsys.readouterr().out, "who judges does not depend on what is read"
    note, before = (json.loads((place / NOTE).read_text()) for place in (folder, by_likelihood))
    assert (note["rule"]["reading"], before["rule"]["reading"]) == ("decoys", "likelihood")
    assert all(len(one.decoys.log_ratio) == TIMES * len(one.log_ratio) for one in seen), (
        "what is kept is told by as many"
    )
    sizes = [len(one.by_image) for one in seen]
    assert note["noise"] == pytest.approx(np.average(expected, weights=sizes), abs=1e-12)
    assert note["noise"] == pytest.approx(0.4, abs=0.1)
    assert note["noise"] != before["noise"]
    assert note["interval"][0] <= note["noise"] <= note["interval"][1]
    right, likely = (read_keep(place)[0].right for place in (folder, by_likelihood))
    assert np.abs(right - likely).max() > 1e-3, "P(right) goes by what was read"


def test_an_audit_checks_what_decoys_read(by_likelihood, noisy, tmp_path, capsys):
    folder = tmp_path / "audit"
    words = ["audit", "features", *noisy, "--out", str(folder), "--neighbours", "0", "--set", "training.steps=50"]
    assert main([*words, "--reading", "decoys"]) == 0
    found = json.loads((folder / "audit.json").read_text())
    check = found["check"]
    assert found["reading"] == "decoys"
    assert found["noise"] == pytest.approx(0.4, abs=0.1)
    assert check["expected"] == pytest.approx(1 - (1 - found["noise"]) * 0.8)
    assert check["found"] == pytest.approx(check["expected"], abs=0.1)
    assert f"{check['found']:.1%} were." in capsys.readouterr().out
    assert main(words) == 0
    again = json.loads((folder / "audit.json").read_text())
    assert (again["reading"], again["noise"] != found["noise"]) == ("likelihood", True)
    assert [one["auroc_of_shuffled"] for one in again["judges"]] == [
        one["auroc_of_shuffled"] for one in found["judges"]
    ]


def test_another_way_to_read_is_named(capsys):
    assert main(["clean", "features", "--out", "nowhere", "--set", "clean.reading=tea leaves"]) == 2
    with pytest.raises(UserError, match="the reading must be one of likelihood, decoys, found 'tea leaves'"):
        Audit(reading="tea leaves")
    assert '"clean.reading" must be one of "likelihood", "decoys", found "tea leaves"' in capsys.readouterr().err
