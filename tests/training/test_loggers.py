"""W&B and MLflow as loggers: their own files hold what metrics.jsonl holds, over a resume too."""

from __future__ import annotations

import json
import random
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from small_run import SmallRun, sent, small_run, without_clock

from equipoise.models.folder import step_folders
from equipoise.training.checkpoint.run_folder import require_same
from equipoise.training.logging.metrics import MetricsLog, read_metrics
from equipoise.training.logging.mlflow import metric_name
from equipoise.training.logging.run_ids import run_id
from equipoise.training.logging.writer import LOGGERS, LastingWriter
from equipoise.training.settings import Training
from equipoise.types import UserError

BLOCK, HEADER = 32768, 7  # bytes, of W&B's log: LevelDB's, behind a header of its own


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name in ("WANDB_MODE", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    return pytest.importorskip("wandb", reason="wandb is not installed: the logger for it is NOT tested")


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return pytest.importorskip("mlflow", reason="mlflow is not installed: the logger for it is NOT tested")


def wandb_records(folder: Path) -> list[Any]:
    """What the offline files of a run hold, the oldest file first."""
    from wandb.proto import wandb_internal_pb2

    files = sorted(folder.glob("wandb/offline-run-*/*.wandb"), key=lambda path: path.stat().st_mtime_ns)
    return [wandb_internal_pb2.Record.FromString(data) for path in files for data in log_entries(path.read_bytes())]


def log_entries(data: bytes) -> Iterator[bytes]:
    at, entry = HEADER, b""
    while at + HEADER <= len(data):
        if BLOCK - at % BLOCK < HEADER:
            at += BLOCK - at % BLOCK
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        entry += data[at + HEADER : at + HEADER + length]
        at += HEADER + length
        if kind in (1, 4):  # whole, or the last part
            yield entry
            entry = b""


def wandb_history(folder: Path) -> list[dict[str, float]]:
    items = [record.history.item for record in wandb_records(folder) if record.WhichOneof("record_type") == "history"]
    named = [{one.key or "/".join(one.nested_key): json.loads(one.value_json) for one in item} for item in items]
    return [{name: value for name, value in record.items() if not name.startswith("_")} for record in named]


def mlflow_history(folder: Path, name: str) -> list[tuple[int, float]]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow' / 'mlflow.db'}")
    found = client.get_metric_history(run_id(folder / "mlflow"), name)
    return [(one.step, one.value) for one in found]


def test_wandb_gets_the_same_records_offline(tmp_path: Path, wandb: ModuleType) -> None:
    given = [(1, {"loss": 2.5}), (2, {"loss": 0.1 + 0.2, "validation/text_to_image_R@1": 0.125})]
    with MetricsLog(tmp_path, loggers=("wandb",), config='seed = 3\n[data]\nname = "scenes"') as log:
        for step, values in given:
            log.write(step, values)
    assert wandb_history(tmp_path) == [{"step": step, **values} for step, values in given]
    run = next(record.run for record in wandb_records(tmp_path) if record.WhichOneof("record_type") == "run")
    config = {one.key: json.loads(one.value_json) for one in run.config.update}
    assert config["seed"] == 3
    assert config["data"] == {"name": "scenes"}
    assert run.run_id == run_id(tmp_path / "wandb")
    assert not (tmp_path / "tensorboard").exists()
    files = {path.name for path in tmp_path.glob("wandb/offline-run-*/files/*")}
    assert not files & {"requirements.txt", "wandb-metadata.json", "diff.patch"}  # nothing of the machine


def test_mlflow_gets_the_same_records_within_the_run(tmp_path: Path, mlflow: ModuleType) -> None:
    with MetricsLog(tmp_path, loggers=("mlflow",), config='seed = 3\n[data]\nname = "scenes"') as log:
        log.write(1, {"loss": 2.5})
        log.write(2, {"loss": 0.1 + 0.2, "validation/text_to_image_R@1": 0.125})
    assert mlflow_history(tmp_path, "loss") == [(1, 2.5), (2, 0.1 + 0.2)]
    assert mlflow_history(tmp_path, "validation/text_to_image_R_at_1") == [(2, 0.125)]
    client = mlflow.tracking.MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow' / 'mlflow.db'}")
    run = client.get_run(run_id(tmp_path / "mlflow"))
    assert run.data.params == {"seed": "3", "data.name": "scenes"}
    assert run.info.status == "FINISHED"
    assert list(Path.cwd().glob("mlruns")) == []


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_loggers_draw_no_random_numbers(tmp_path: Path, name: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(name)
    before = random.getstate(), torch.get_rng_state()
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with MetricsLog(tmp_path, loggers=(name,)) as log:
        log.write(1, {"loss": 1.0})
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    after = random.getstate(), torch.get_rng_state()
    assert before[0] == after[0]
    assert torch.equal(before[1], after[1])


@pytest.mark.slow
def test_a_resumed_run_goes_on_in_the_same_place_bit_for_bit(
    tmp_path: Path, wandb: ModuleType, mlflow: ModuleType
) -> None:
    plain = small_run(tmp_path / "plain")
    plain.go()
    run = small_run(tmp_path / "run", f"training.loggers={json.dumps(LOGGERS)}")
    run.go({6: sent(signal.SIGTERM)})
    ids = [run_id(run.folder / name) for name in ("wandb", "mlflow")]
    for leftover in step_folders(run.folder)[1:]:
        leftover.rename(leftover.with_name("moved away"))  # so that steps 4 to 6 come again
    run.go(resume=True)
    assert [run_id(run.folder / name) for name in ("wandb", "mlflow")] == ids
    records = read_metrics(run.folder / "metrics.jsonl")
    assert without_clock(records) == without_clock(read_metrics(plain.folder / "metrics.jsonl"))
    assert_same_weights(run, plain)
    losses = [(record["step"], record["loss"]) for record in records if "loss" in record]
    assert mlflow_history(run.folder, "loss") == losses
    measured = [(record["step"], record["validation/mean_recall"]) for record in records if len(record) == 2]
    assert mlflow_history(run.folder, "validation/mean_recall") == measured
    shown = [(record["step"], record["loss"]) for record in wandb_history(run.folder) if "loss" in record]
    assert shown == losses[:6] + losses[3:]
    ran = [record.run.run_id for record in wandb_records(run.folder) if record.WhichOneof("record_type") == "run"]
    assert set(ran) == {ids[0]}


def assert_same_weights(run: SmallRun, other: SmallRun) -> None:
    for (name, mine), theirs in zip(run.model.state_dict().items(), other.model.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs), name


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_missing_package_is_one_sentence(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [*sys.modules]:
        if module == name or module.startswith(f"{name}."):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=rf"loggers names {name}.*pip install 'equipoise\[{name}\]'"):
        MetricsLog(tmp_path, loggers=(name,))


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_strange_id_is_one_sentence(tmp_path: Path, name: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(name)
    (tmp_path / name).mkdir()
    (tmp_path / name / "run-id").write_text("../../elsewhere")
    with pytest.raises(UserError, match="run-id holds no id"):
        MetricsLog(tmp_path, loggers=(name,))


def test_a_run_that_mlflow_does_not_know_is_one_sentence(tmp_path: Path, mlflow: ModuleType) -> None:
    (tmp_path / "mlflow").mkdir()
    (tmp_path / "mlflow" / "run-id").write_text("abc123")
    with pytest.raises(UserError, match=r"mlflow cannot take the metrics .*abc123.*training\.loggers"):
        MetricsLog(tmp_path, loggers=("mlflow",))


class Refusing:
    """A server that takes one record and then is gone."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    def write(self, step: int, values: Mapping[str, float]) -> None:
        if self.taken:
            raise ConnectionError("connection refused.\nTraceback")
        self.taken.append(step)

    def close(self) -> None: ...


def test_a_logger_that_fails_ends_no_run() -> None:
    refusing = Refusing()
    writer = LastingWriter("mlflow", refusing)
    writer.write(1, {"loss": 1.0})
    with pytest.warns(
        UserWarning, match=r"mlflow takes no more metrics \(connection refused\).*metrics\.jsonl"
    ) as told:
        writer.write(2, {"loss": 1.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        writer.write(3, {"loss": 1.0})
        writer.close()
    assert len(told) == 1
    assert refusing.taken == [1]


@pytest.mark.parametrize("loggers", [("comet",), ("wandb", "wandb")])
def test_strange_loggers_are_refused(loggers: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match="some of tensorboard, wandb, mlflow, each once"):
        Training(loggers=loggers)


def test_loggers_may_change_when_a_run_goes_on(tmp_path: Path) -> None:
    require_same(tmp_path, {"training": {"loggers": ["tensorboard"]}}, {"training": {"loggers": ["wandb"]}})


def test_no_logger_leaves_metrics_alone(tmp_path: Path) -> None:
    with MetricsLog(tmp_path, loggers=()) as log:
        log.write(1, {"loss": 1.0})
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_names_are_in_letters_that_mlflow_allows() -> None:
    assert metric_name("validation/text_to_image_R@10") == "validation/text_to_image_R_at_10"
    assert metric_name("loss/m²-mix (a)") == "loss/m²-mix _a_"
