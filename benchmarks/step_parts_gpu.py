"""Parts of a training step alone, on a GPU: `python benchmarks/step_parts_gpu.py`.

    attention   forward, and forward with backward, of qkv [N, L, 3, h, 64] in bf16: by what torch chooses, by cuDNN and
                by the kernels of short samples; texts of 20 tokens on average besides, packed, causal
    products    T × k × n in bf16, of 8-bit floats with scales of rows or of the tensor, and a weight's gradient in bf16
    convolutions  forward with backward of a ResNet-50 in bf16, 512 pictures of 128 pixels, channels first and last
    feeding     4,096 pictures as 8-bit pixels to the GPU: how long the processor is busy, and until they are there

Medians of 20 by CUDA events.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from caption_lengths import drawn_lengths
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from equipoise.encoders.packing import attention
from equipoise.ops.memory_format import for_convolutions
from equipoise.ops.round_rows import by_torch
from equipoise.ops.short_attention import short_attention

SHAPES = ((4096, 50, 12), (4096, 77, 8), (2048, 128, 12), (1024, 197, 12), (1024, 65, 8))  # samples, tokens, heads
PRODUCTS = ((204_800, 768, 3072), (204_800, 3072, 768), (204_800, 768, 2304), (81_921, 512, 2048))
BF16 = {"device": "cuda", "dtype": torch.bfloat16}


def milliseconds(work: Callable[[], object], times: int = 20) -> float:
    work()
    work()
    found = []
    for _ in range(times):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        stop.record()
        stop.synchronize()
        found.append(start.elapsed_time(stop))
    return statistics.median(found)


def by_cudnn(qkv: Tensor) -> Tensor:
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return attention(*qkv.unbind(-3))


def show(what: str, ways: dict[str, Callable[[], Tensor]], qkv: Tensor) -> None:
    upstream = torch.randn_like(next(iter(ways.values()))())
    for name, way in ways.items():
        with torch.no_grad():
            forward = milliseconds(way)
        both = milliseconds(lambda way=way: torch.autograd.grad(way(), qkv, upstream))
        print(f"{what:<28}{name:<8}{forward:>9.3f} ms forward{both:>9.3f} ms with backward", flush=True)


def even_attention() -> None:
    for samples, tokens, heads in SHAPES:
        qkv = torch.randn(samples, tokens, 3, heads, 64, requires_grad=True, **BF16)
        ways = {
            "torch": lambda qkv=qkv: attention(*qkv.unbind(-3)),
            "cudnn": lambda qkv=qkv: by_cudnn(qkv),
            "short": lambda qkv=qkv, n=tokens: short_attention(qkv.flatten(0, 1), None, n, False).view_as(qkv[:, :, 0]),
        }
        show(f"{samples} x {tokens}, {heads} heads", ways, qkv)


def packed_attention() -> None:
    from torch.nn.attention.varlen import varlen_attn

    lengths = drawn_lengths(4096, 20)
    longest, starts = int(lengths.max()), torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).int().cuda()
    qkv = torch.randn(int(lengths.sum()), 3, 8, 64, requires_grad=True, **BF16)
    ways = {
        "varlen": lambda: varlen_attn(*qkv.unbind(-3), starts, starts, longest, longest, window_size=(-1, 0)),
        "short": lambda: short_attention(qkv, starts, longest, True),
    }
    show(f"4096 texts of 20, at most {longest}", ways, qkv)


def products() -> None:
    for tokens, deep, wide in PRODUCTS:
        x, w, g = torch.randn(tokens, deep, **BF16), torch.randn(wide, deep, **BF16), torch.randn(tokens, wide, **BF16)
        (x8, x_scale), (w8, w_scale), one = by_torch(x), by_torch(w), torch.ones((), device="cuda")
        ways = {
            "bf16": lambda x=x, w=w: x @ w.t(),
            "8 bits, rows": lambda a=x8, b=w8, s=x_scale, t=w_scale: scaled(a, b, s, t.t()),
            "8 bits, tensor": lambda a=x8, b=w8, s=one: scaled(a, b, s, s),
            "gradient, bf16": lambda x=x, g=g: g.t() @ x,
        }
        for name, way in ways.items():
            spent = milliseconds(way)
            rate = 2 * tokens * deep * wide / spent / 1e9
            print(f"{tokens} x {deep} x {wide:<8}{name:<16}{spent:>9.3f} ms{rate:>8.0f} TFLOP/s", flush=True)


def scaled(a: Tensor, b: Tensor, of_a: Tensor, of_b: Tensor) -> Tensor:
    return torch._scaled_mm(a, b.t(), of_a, of_b, out_dtype=torch.bfloat16, use_fast_accum=True)


def convolutions() -> None:
    import transformers

    model = transformers.AutoModel.from_config(transformers.ResNetConfig()).cuda().train()
    images = torch.randn(512, 3, 128, 128, device="cuda")

    def step(images: Tensor) -> None:
        with torch.autocast("cuda", torch.bfloat16):
            found = model(pixel_values=images).last_hidden_state.float().mean()
        found.backward()
        model.zero_grad()

    for name, given in (("channels first", images), ("channels last", for_convolutions(images))):
        print(
            f"ResNet-50, 512 pictures     {name:<16}{milliseconds(lambda given=given: step(given)):>9.1f} ms",
            flush=True,
        )


def feeding() -> None:
    images = torch.randint(0, 255, (4096, 3, 224, 224), dtype=torch.uint8)
    ways = {
        "pageable": lambda: images.to("cuda"),
        "pinned": lambda: images.pin_memory().to("cuda", non_blocking=True),
    }
    for name, way in ways.items():
        way()
        torch.cuda.synchronize()
        start = time.perf_counter()
        way()
        busy = time.perf_counter() - start
        torch.cuda.synchronize()
        whole = time.perf_counter() - start
        print(f"feeding {name:<10}{busy * 1e3:>6.0f} ms of the processor{whole * 1e3:>6.0f} ms in all")


def main() -> None:
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for part in (even_attention, packed_attention, products, convolutions, feeding):
        part()


if __name__ == "__main__":
    main()
