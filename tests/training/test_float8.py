"""Training with 8-bit products: refused where there are none, the same names, and it learns as float32 does."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from equipoise.objectives import CLIP
from equipoise.ops.float8_linear import Float8Linear, scaled_product
from equipoise.training import settings as settings_module
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import UserError

CPU = torch.device("cpu")
SETTINGS = Training(steps=40, batch_size=16, warmup_steps=4, learning_rate=1e-2, precision="float32", device="cpu")


def test_a_device_without_such_products_is_refused(model):
    with pytest.raises(UserError, match=r"precision float8 needs a GPU of compute capability 8\.9 .*use auto, bf16"):
        Step(model, CLIP(), replace(SETTINGS, precision="float8"), CPU)


def has_products() -> bool:
    """Some versions of torch have none on some processors."""
    try:
        scaled_product(torch.zeros(16, 16), torch.zeros(16, 16))
    except (RuntimeError, NotImplementedError):
        return False
    return True


needs_products = pytest.mark.skipif(not has_products(), reason="this torch has no 8-bit products on this processor")


@needs_products
def test_it_learns_as_float32_does(monkeypatch, model, batches):
    monkeypatch.setattr(settings_module, "can_float8", lambda device: True)  # a CPU has the product, if no speed
    start, names, found = {n: t.clone() for n, t in model.state_dict().items()}, list(model.state_dict()), {}
    batch = batches.batch(0)
    for precision in ("float32", "float8"):  # this order: maps stay exchanged
        model.load_state_dict(start)
        step = Step(model.train(), CLIP(), replace(SETTINGS, precision=precision), CPU)
        found[precision] = [float(step(batch, number).loss.total.detach()) for number in range(1, 41)]
    exchanged = [name for name, module in model.named_modules() if isinstance(module, Float8Linear)]
    assert len(exchanged) == 8  # two towers of one block
    assert all(name.startswith(("image_encoder.", "text_encoder.")) for name in exchanged)
    assert list(model.state_dict()) == names
    plain, eight = found["float32"], found["float8"]
    assert eight[0] == pytest.approx(plain[0], abs=0.02)
    assert eight[0] != plain[0]
    assert eight[-1] < 0.5 * eight[0]
    assert eight[-1] == pytest.approx(plain[-1], abs=0.25)


@needs_products
def test_the_trained_model_is_plain_in_evaluation(monkeypatch, model, batches):
    batch = batches.batch(0)
    with torch.no_grad():
        wanted = model.eval()(batch).image
        monkeypatch.setattr(settings_module, "can_float8", lambda device: True)
        Step(model.train(), CLIP(), replace(SETTINGS, precision="float8"), CPU)
        assert torch.equal(model.eval()(batch).image, wanted)
        assert not torch.equal(model.train()(batch).image, wanted)
