"""Activations that are kept or made again: the same gradients, no product twice under "cheap", and less memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from recomputation import Memory  # of benchmarks
from torch import Tensor, nn
from torch.nn.attention.varlen import varlen_attn
from torch.utils.flop_counter import FlopCounterMode

from equipoise.config import load_run
from equipoise.encoders import IMAGE_ENCODERS, TEXT_ENCODERS
from equipoise.encoders.multimodal_decoder import MultimodalDecoder
from equipoise.encoders.packing import Even, Packed
from equipoise.encoders.recomputation import CHEAP, KEPT, Recompute, checkpointed
from equipoise.encoders.transformer import Transformer
from equipoise.encoders.vit import ViT
from equipoise.ops import short_attention
from equipoise.ops.float8_linear import Float8Linear, scaled_product, use_float8
from equipoise.settings.toml import literal
from equipoise.training.settings import Training
from equipoise.training.term_gradients import require_gradients_possible
from equipoise.types import UserError

IMAGES = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(1))
IDS = torch.randint(1, 40, (4, 12), generator=torch.Generator().manual_seed(2))
MASK = torch.arange(12) < torch.tensor([[3], [12], [1], [9]])
IMAGE = ("vit-nano", "swin-nano", "resnet-nano", "siglip-nano", "coca-nano")
TEXT = ("causal-nano", "bert-nano", "siglip-nano", "coca-nano")
HOWS: tuple[Recompute, ...] = (False, CHEAP, True)


def image_tower(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    return IMAGE_ENCODERS[name].build(32).train(), (IMAGES,)


def text_tower(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    return TEXT_ENCODERS[name].build(40, 12).train(), (IDS, MASK)


def vit(mlp_ratio: float = 4.0) -> ViT:
    torch.manual_seed(0)
    built = ViT.Config(patch=4, width=64, layers=4, heads=4, mlp_ratio=mlp_ratio).build(32).train()
    assert isinstance(built, ViT)
    return built


def gradients(module: nn.Module, made: Tensor) -> dict[str, Tensor]:
    module.zero_grad()
    weights = torch.randn(made.shape, generator=torch.Generator().manual_seed(3))
    (made * weights.to(made)).sum().backward()
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


def counted(module: nn.Module, call: Callable[[], Tensor]) -> tuple[dict[str, Tensor], int]:
    """Gradients, and the operations of matrix products and attention in both passes."""
    with FlopCounterMode(display=False) as counter:
        found = gradients(module, call())
    return found, counter.get_total_flops()


def differing(got: dict[str, Tensor], expected: dict[str, Tensor]) -> list[str]:
    assert got.keys() == expected.keys()
    assert expected
    return [name for name, grad in expected.items() if not torch.equal(got[name], grad)]


@pytest.mark.parametrize("cast", [False, True], ids=["float32", "bf16"])
@pytest.mark.parametrize("classes_only", [False, True])
@pytest.mark.parametrize("build", [*(partial(image_tower, n) for n in IMAGE), *(partial(text_tower, n) for n in TEXT)])
def test_gradients_are_the_same_and_no_product_is_made_twice(build, classes_only, cast):
    tower, inputs = build()

    def call() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=cast):
            return tower(*inputs, classes_only=classes_only).classes.float()

    found = {}
    for how in HOWS:
        tower.recompute_activations(how)
        found[how] = counted(tower, call)
    for how in (CHEAP, True):
        assert differing(found[how][0], found[False][0]) == []
    assert found[False][1] == found[CHEAP][1] < found[True][1]


def test_a_captions_decoder_does_so_too():
    torch.manual_seed(0)
    decoder = MultimodalDecoder(16, 24, layers=2, heads=2, mlp_ratio=4.0, act="gelu").double().train()
    picture, words = torch.randn(4, 5, 24).double(), torch.randn(4, 12, 16).double()
    layout, found = Packed.of(MASK, causal=True), {}
    for how in HOWS:
        decoder.recompute = how
        found[how] = counted(decoder, lambda: decoder(layout.pack(words), decoder.keys_values(picture), layout))
    assert differing(found[CHEAP][0], found[False][0]) == []
    assert found[False][1] == found[CHEAP][1] < found[True][1]


@pytest.mark.parametrize("cast", [False, True], ids=["float64", "bf16"])
def test_a_tower_may_be_passed_twice_in_one_step(cast):
    """Autocast keeps weights that it has cast: the first pass of the second view would cast none, its second all.
    Cast anew, the two views' gradients are summed in float32, not in bfloat16."""
    tower, found = vit().double() if not cast else vit(), {}
    images = IMAGES if cast else IMAGES.double()
    for how in HOWS:
        tower.recompute_activations(how)
        with torch.autocast("cpu", torch.bfloat16, enabled=cast):
            made = tower(images).classes + tower(images.flip(-1)).classes
        found[how] = gradients(tower, made.float() if cast else made)
    for how in (CHEAP, True):
        assert cast or differing(found[how], found[False]) == []
        for name, grad in found[False].items():
            assert (found[how][name] - grad).norm() <= 4e-3 * grad.norm(), name
    assert torch.is_autocast_cache_enabled()


def test_chance_is_drawn_again_as_it_was():
    block = nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.5), nn.GELU(), nn.Linear(32, 8), nn.Dropout(0.5))
    x, found, drawn = torch.randn(64, 8), {}, {}
    for how in HOWS:
        torch.manual_seed(5)
        found[how] = gradients(block, checkpointed(block, x, recompute=how, ends_narrowing=False))
        drawn[how] = torch.rand(3)
    for how in (CHEAP, True):
        assert differing(found[how], found[False]) == []
        assert torch.equal(drawn[how], drawn[False])


def test_running_statistics_count_a_batch_once():
    found = {}
    for how in HOWS:
        tower, inputs = image_tower("resnet-nano")
        tower.recompute_activations(how)
        gradients(tower, tower(*inputs).classes)
        found[how] = dict(tower.named_buffers())
    for how in (CHEAP, True):
        assert differing(found[how], found[False]) == []


def test_a_pass_without_gradients_keeps_nothing():
    peaks, tower = set(), vit()
    for how in HOWS:
        tower.recompute_activations(how)
        with torch.no_grad(), Memory(tower) as memory:
            tower(IMAGES)
        peaks.add(memory.peak)
    assert len(peaks) == 1


def test_memory_falls_with_what_is_made_again():
    """Of 16 w numbers per token and block "cheap" keeps 10, True 1; each keeps the stem and the sums of attention."""
    kept, peak = {}, {}
    for how in HOWS:
        tower = vit()
        tower.recompute_activations(how)
        with Memory(tower) as memory:
            made = tower(IMAGES).classes.sum()
            kept[how] = memory.now
            made.backward()
        peak[how] = memory.peak
    tokens = 3 * 65 * 64 * 4  # pictures, tokens, width and bytes
    saved = (kept[False] - kept[CHEAP]) / (4 * tokens)  # a block's
    assert saved == pytest.approx(6, abs=0.1)
    assert kept[CHEAP] < 0.7 * kept[False]
    assert kept[True] < 0.25 * kept[False]
    assert peak[True] < peak[CHEAP] < 0.8 * peak[False]


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("mlp_ratio", [0.5, 1.0, 4.0])
def test_no_shape_of_block_multiplies_twice(norm_first, mlp_ratio):
    """Only a pre-LN block's widening MLP ends with a product that nothing keeps."""
    torch.manual_seed(0)
    tower = Transformer(16, 2, 2, mlp_ratio, norm_first=norm_first).double().train()
    x, found = torch.randn(2, 5, 16).double(), {}
    for how in HOWS:
        tower.recompute = how
        found[how] = counted(tower, lambda: tower(x, Even()))
    assert differing(found[CHEAP][0], found[False][0]) == []
    assert found[False][1] == found[CHEAP][1] < found[True][1]


def test_products_of_8_bits():
    try:
        scaled_product(torch.zeros(16, 16), torch.zeros(16, 16))
    except (RuntimeError, NotImplementedError):
        pytest.skip("this torch has no 8-bit products on this processor")
    tower, found = vit(), {}
    assert use_float8((str(number), block) for number, block in enumerate(tower.blocks())) == 16
    assert isinstance(tower.transformer.blocks[0].mlp_in, Float8Linear)
    for how in HOWS:  # without autocast, which a CPU's stand-in for the product obeys unless an operation is watched
        tower.recompute_activations(how)
        found[how] = counted(tower, tower(IMAGES).classes.float)
    for how in (CHEAP, True):
        assert differing(found[how][0], found[False][0]) == []
    assert found[False][1] == found[CHEAP][1] < found[True][1]


def test_the_names_of_what_is_kept_are_those_of_operations():
    assert varlen_attn is not None
    assert short_attention is not None
    known = set(torch._C._dispatch_get_all_op_names())
    assert sorted(KEPT - known) == []
    kernel: Any = torch.ops.equipoise.short_attention.default
    assert kernel.name() in KEPT


@pytest.mark.slow
@pytest.mark.parametrize("text", [False, True])
def test_compiled(text):
    tower: Any = text_tower("causal-nano")[0] if text else vit()
    inputs: Any = (IDS, MASK) if text else (IMAGES,)
    found, sizes = {}, {}
    for how in HOWS:
        torch.compiler.reset()
        tower.recompute_activations(how)
        compiled, kept = torch.compile(tower, backend="aot_eager"), []
        with torch.autograd.graph.saved_tensors_hooks(lambda x, kept=kept: kept.append(x.nbytes) or x, lambda x: x):
            made = compiled(*inputs).classes
        found[how], sizes[how] = gradients(tower, made), sum(kept)
    torch.compiler.reset()
    for how in (CHEAP, True):
        for name, grad in found[False].items():
            torch.testing.assert_close(found[how][name], grad, rtol=0, atol=1e-6)
    assert sizes[True] < sizes[CHEAP] < sizes[False]


def test_other_words_are_refused():
    with pytest.raises(UserError, match=r'recompute_activations must be true, false or "cheap", not .dear.'):
        Training(recompute_activations="dear")  # type: ignore[arg-type]
    with pytest.raises(UserError, match='true or false or "cheap"'):
        load_run("demo", ["training.recompute_activations=dear"])
    for how in HOWS:
        assert load_run("demo", [f"training.recompute_activations={literal(how)}"]).run.training == Training(
            **{**vars(load_run("demo").run.training), "recompute_activations": how}
        )


def test_gradients_of_terms_pass_back_too_often():
    with pytest.raises(UserError, match=r'recompute_activations = "cheap" keeps it for one'):
        require_gradients_possible(Training(log_gradients=True, recompute_activations=CHEAP), 1)
