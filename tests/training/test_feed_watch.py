"""A run says once that it waits for its batches, with what helps; one that does not wait says nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from PIL import Image
from small_run import RECIPE

from equipoise.config import load_run
from equipoise.data.batches import Batches
from equipoise.data.preprocess import Preprocess
from equipoise.data.scenes import Scenes
from equipoise.data.source import Source
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.training.logging.feed_watch import LOOKED, SKIPPED, FeedWatch
from equipoise.training.step import Step
from equipoise.workflows import train_run

ON_GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]


@pytest.fixture(autouse=True)
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FeedWatch, "_told", False)


@dataclass
class Clock:
    now: float = 0.0

    def seconds(self) -> float:
        return self.now


class Event:
    """Stands in for that of a GPU."""

    busy = False

    def record(self, stream: object) -> None: ...

    def query(self) -> bool:
        return not self.busy


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> type[Event]:
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: None)
    monkeypatch.setattr(Event, "busy", False)
    return Event


def batches_of(source: Source, workers: int = 0) -> Batches:
    tokens = CaptionTokenizer.train(["a caption"], CaptionTokenizer.Config())
    return Batches(source, tokens, Preprocess(8), batch_size=2, seed=0, workers=workers)


def told(batches: Batches, device: str, waits: float, first: float = 0.0) -> list[str]:
    """What is said in steps of a second, of which `waits` are waited for a batch; `first` seconds for the first one."""
    clock, said = Clock(), []
    watch = FeedWatch(batches, clock, torch.device(device))
    for step in range(2 * (SKIPPED + LOOKED)):
        begin = 0.0 if step else first
        batches.waited += waits + begin
        clock.now += 1.0 + begin
        watch.batch_came()
        watch.step_done()
        said.append(watch.sentence())
    return [sentence for sentence in said if sentence]


def test_much_waiting_is_told_once_with_what_helps(gpu, monkeypatch):
    scenes = Scenes.Config(train_size=8, cache=False).build("train")
    help_ = "Set training.workers: a thread makes them now, and there are 6 cores."
    assert told(batches_of(scenes), "cuda", 0.6) == [f"For 60% of the time training waits for its batches. {help_}"]
    assert told(batches_of(scenes), "cuda", 0.6) == []  # the next judge's run
    monkeypatch.setattr(FeedWatch, "_told", False)
    assert told(batches_of(scenes), "cuda", 0.2, first=60.0) == []
    assert told(batches_of(scenes, workers=6), "cuda", 0.6) == []  # nothing helps that is known
    assert told(batches_of(scenes), "cpu", 0.6) == []
    gpu.busy = True  # the batch comes before the step before it is done
    assert told(batches_of(scenes), "cuda", 0.6) == []


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=ON_GPU)])
@pytest.mark.parametrize("slow", [True, False])
def test_a_run_on_files_that_are_read_too_slowly_says_so(tmp_path, capfd, monkeypatch, slow, device):
    for number in range(8):
        Image.new("RGB", (20, 20), (20 * number, 0, 0)).save(tmp_path / f"{number}.png")
        (tmp_path / f"{number}.txt").write_text(f"picture {number}")
    where = "".join(f"{split} = {str(tmp_path)!r}\n" for split in ("train", "validation", "test"))
    sizes = "train_size = 40\nvalidation_size = 8\ntest_size = 8\n"
    assert sizes in RECIPE
    (tmp_path / "r.toml").write_text(RECIPE.replace(sizes, f'name = "pictures"\n{where}'))
    steps = [f"training.steps={SKIPPED + LOOKED + 3}", "training.evaluate_every=1000", "training.log_every=20"]
    steps += [f"training.device={device}"]
    make, step = Batches.make, Step.__call__

    def slowly(function: Callable[..., Any], wanted: bool) -> Callable[..., Any]:
        def work(*args: Any, **kwargs: Any) -> Any:
            time.sleep(0.1 if wanted else 0.0)
            return function(*args, **kwargs)

        return work

    monkeypatch.setattr(Batches, "make", slowly(make, slow))
    monkeypatch.setattr(Step, "__call__", slowly(step, not slow))
    train_run(load_run(tmp_path / "r.toml", steps), tmp_path / "run")
    said = capfd.readouterr().err
    assert said.count("of the time training waits for its batches") == slow
    assert said.count("`equipoise data prepare` makes picture files smaller") == slow
