"""Batch norm in a run: counted once, kept in checkpoints and the average, bit-identical after a stop."""

from __future__ import annotations

import signal
import warnings

import pytest
import torch
from safetensors.torch import load_file
from small_model import objective_named, random_batch, small_resnet_model
from small_run import sent, small_run, without_clock

from equipoise.training.logging.metrics import read_metrics
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import Embeddings, UserError
from equipoise.workflows import load

RESNET = ("image.name=resnet-nano", "training.micro_batch=4", "training.recompute_activations=true")


def step_of(micro: int, size: int = 12) -> Step:
    settings = Training(batch_size=size, micro_batch=micro, warmup_steps=0)
    return Step(small_resnet_model().train(), objective_named("clip"), settings, torch.device("cpu"))


def test_micro_batches_are_normalised_each_by_itself_and_counted_once():
    """Loss, gradients and running statistics of a plain pass over the same micro-batches under autograd."""
    batch, model = random_batch(12, size=32), small_resnet_model().train()
    with pytest.warns(UserWarning, match="training.micro_batch"):
        step = step_of(4)
    loss = step._backward(batch)
    parts = [model(batch.map(lambda tensor, k=k: tensor[k : k + 4])).roles() for k in (0, 4, 8)]
    whole = Embeddings(**{role: torch.cat([part[role] for part in parts]) for role in parts[0]})
    expected = objective_named("clip")(whole, batch, log_scale=model.log_scale, space=model.space).total
    expected.backward()
    assert loss.total.item() == pytest.approx(expected.item(), abs=1e-12)
    for (name, mine), theirs in zip(step.model.named_parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=0, atol=1e-12, msg=name)
    buffers = dict(model.named_buffers())
    assert [name for name, mine in step.model.named_buffers() if not torch.equal(mine, buffers[name])] == []
    assert buffers["image_encoder.stem.bn1.num_batches_tracked"] == 3


@pytest.mark.parametrize("micro", [1, 5, 11])
def test_micro_batches_without_statistics_are_refused(micro):
    with pytest.raises(UserError, match=f"12 samples of each process, not {micro}"):
        step_of(micro)


def test_a_whole_batch_needs_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step_of(0)
        step_of(12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the model has batch norm")
def test_stopped_and_resumed_bit_for_bit(tmp_path):
    """With micro-batches, recomputed activations and a moving average, statistics included."""
    alone, stopped = (small_run(tmp_path / name / "run", *RESNET) for name in ("alone", "stopped"))
    assert alone.go().step == 8
    assert stopped.go({5: sent(signal.SIGTERM)}).step == 5
    assert stopped.go(resume=True).step == 8
    logs = [without_clock(read_metrics(run.folder / "metrics.jsonl")) for run in (alone, stopped)]
    assert logs[0] == logs[1]
    for file in ("model.safetensors", "training.safetensors"):
        one, two = (load_file(run.folder / "checkpoints/step-00000008" / file) for run in (alone, stopped))
        assert one.keys() == two.keys()
        assert [name for name in one if not torch.equal(one[name], two[name])] == []
    average = load_file(alone.folder / "checkpoints/step-00000008/model.safetensors")
    trained = load_file(alone.folder / "checkpoints/step-00000008/training.safetensors")
    running = "image_encoder.stem.bn1.running_mean"
    assert not torch.equal(average[running], trained[f"weights/{running}"])  # an average of its own
    assert average["image_encoder.stem.bn1.num_batches_tracked"] == 16  # two micro-batches a step
    assert load(alone.folder).encode_image(torch.zeros(1, 3, 32, 32, dtype=torch.uint8)).isfinite().all()
