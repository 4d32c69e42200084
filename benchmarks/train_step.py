"""A training step beside open_clip's, in one run: `python benchmarks/train_step.py` (Linux).

Both train the same CLIP from the same weights on the same random images and texts: towers of the same sizes, AdamW,
gradients clipped to 1, the loss over the whole batch. open_clip pads texts to 77 tokens, as its tokenizer does; ours
are as long as they are. The first loss stands in the table: where both compute the same, it is the same.

    --captions FOLDER     lengths of the captions in WebDataset shards there, by CLIP's tokenizer; without it, lengths
                          are drawn as they occur among the 30,000 training captions of Flickr8k (mean 14.1)
    --caption-length 20   all of those lengths moved, so that their mean is this
    --device cuda --model ViT-B-32 --batch 4096 --precision bf16      on a GPU

Rows of ours may have words behind them: `ours-compiled-float8`, and `flash` (without the kernels of short attention),
`rows` (with those of up to 256 tokens too), `fdt` (a code book of 16,384 codes reads the towers), `graphs` (passes are
launched at once, as CUDA graphs), `cheap` (norms and activations are made again for the backward pass), in any order.

On a CPU each row has a process of its own; seconds are the CPU's, on one thread, so that other work on the machine
matters little; memory is the highest resident size above that before the model was built. On a GPU seconds are those of
all timed steps by the clock, which stops when the last loss is read, as a training loop reads it every so many steps;
memory is what torch allocated at most. Model FLOPs are three times those of a forward pass over all blocks;
`MFU real` counts real tokens alone, `MFU padded` all 77, each against `--peak` TFLOP/s.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from caption_lengths import FLICKR8K_MEAN, drawn_lengths, read_lengths
from clip_sizes import CONTEXT, MODELS, Sizes
from open_clip_peer import make_torchvision_importable
from resident import Resident

from equipoise.data.moved_batch import moved_batch
from equipoise.data.preprocess import Preprocess
from equipoise.encoders import TextTransformer, ViT
from equipoise.encoders.recomputation import CHEAP
from equipoise.interop.open_clip.keys import from_open_clip
from equipoise.models.logit_scale import LogitScale
from equipoise.models.model import Model
from equipoise.objectives import CLIP
from equipoise.ops import short_attention
from equipoise.ops.short_attention import LONGEST
from equipoise.readouts import ClassToken, CodeBookReadout
from equipoise.spaces import Sphere
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import Batch

BATCHES = 4  # that take turns, each with other texts
ROWS = ("open_clip", "open_clip-compiled", "ours", "ours-compiled")
WORDS = ("float8", "flash", "rows", "fdt", "graphs", "cheap")  # behind ours
CODES = 16_384


@dataclass(frozen=True)
class Task:
    sizes: Sizes
    lengths: torch.Tensor  # [BATCHES, N]
    device: str
    precision: str
    warmup: int
    steps: int
    threads: int

    def batches(self) -> list[Batch]:
        """Texts are still on the processor. The end token has the highest number, which is how open_clip finds it."""
        make, found = torch.Generator().manual_seed(0), []
        size = self.sizes.image
        noise = torch.Generator(self.device).manual_seed(0)
        images = torch.randn(self.lengths.shape[1], 3, size, size, generator=noise, device=self.device)
        for lengths in self.lengths:
            end = self.sizes.vocabulary - 1
            ids = torch.randint(1, end, (len(lengths), CONTEXT), generator=make)
            mask = torch.arange(CONTEXT) < lengths[:, None]
            ids = (ids * mask).scatter(1, lengths[:, None] - 1, end)
            found.append(Batch(images, ids, mask, torch.arange(len(lengths))))
        return found

    def settings(self, words: Sequence[str]) -> Training:
        precision = "float8" if "float8" in words else self.precision
        ways = {"compile": "compiled" in words, "cuda_graphs": "graphs" in words}
        again = CHEAP if "cheap" in words else False
        return Training(warmup_steps=0, learning_rate=1e-4, precision=precision, recompute_activations=again, **ways)


@dataclass(frozen=True)
class Measured:
    loss: float  # of the first step
    seconds: float  # of the median step
    peak: int  # bytes
    first: float  # seconds of the first step by the clock, compilation among them


def open_clips(task: Task, words: Sequence[str]) -> Callable[[Batch], torch.Tensor]:
    """A step as open_clip's own training loop takes it."""
    from open_clip.loss import ClipLoss

    settings, model = task.settings(words), open_clip_model(task.sizes).to(task.device).train()
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, betas=settings.betas, eps=settings.epsilon)
    forward, compare, autocast = model, ClipLoss(), settings.autocast(torch.device(task.device))
    if settings.compile:
        forward = torch.compile(model)

    def step(batch: Batch) -> torch.Tensor:
        optimizer.zero_grad()
        with autocast:
            loss = compare(*forward(batch.images, batch.tokens))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm)
        optimizer.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0, 4.6052)
        return loss.detach()

    return step


def ours(task: Task, words: Sequence[str]) -> Callable[[Batch], torch.Tensor]:
    device = torch.device(task.device)
    short_attention.LONGEST = 0 if "flash" in words else 256 if "rows" in words else LONGEST
    model = our_model(task.sizes, words)
    step = Step(model.to(device).train(), CLIP(), task.settings(words), device)
    return lambda batch: step(batch, 1).loss.total.detach()


def our_model(sizes: Sizes, words: Sequence[str] = ()) -> Model:
    """From open_clip's weights."""
    model = Model(
        image=ViT.Config(sizes.patch, sizes.width, sizes.layers, sizes.heads),
        text=TextTransformer.Config(True, sizes.text_width, sizes.text_layers, sizes.text_heads),
        readout=CodeBookReadout.Config(codes=CODES) if "fdt" in words else ClassToken.Config(),
        space=Sphere(sizes.dim),
        temperature=LogitScale(),
        preprocess=Preprocess(sizes.image),
        tokens=sizes,  # type: ignore[arg-type]
    )
    model.load_state_dict(from_open_clip(open_clip_model(sizes).state_dict()), strict="fdt" not in words)
    return model


def trimmed(batch: Batch) -> Batch:
    """As our tokenizer makes it, as wide as the longest text, and as our loader moves it to the device."""
    width = -4 * (-int(batch.mask.sum(1).max()) // 4)
    tokens, mask = (x[:, :width].contiguous() for x in (batch.tokens, batch.mask))
    return moved_batch(Batch(batch.images, tokens, mask, batch.index), batch.images.device)


def padded(batch: Batch) -> Batch:
    """As open_clip's tokenizer makes it, on the device."""
    return batch.map(lambda tensor: tensor.to(batch.images.device))


def open_clip_model(sizes: Sizes) -> torch.nn.Module:
    make_torchvision_importable()
    from open_clip.model import CLIP as TheirCLIP

    torch.manual_seed(0)
    vision = {
        "image_size": sizes.image, "patch_size": sizes.patch, "width": sizes.width, "layers": sizes.layers,
        "head_width": sizes.width // sizes.heads,
    }  # fmt: skip
    text = {
        "context_length": sizes.context, "vocab_size": sizes.vocabulary, "width": sizes.text_width,
        "heads": sizes.text_heads, "layers": sizes.text_layers,
    }  # fmt: skip
    return TheirCLIP(embed_dim=sizes.dim, vision_cfg=vision, text_cfg=text)


def measure(row: str, task: Task) -> Measured:
    torch.set_num_threads(task.threads)
    open_clip_model(MODELS["small"])  # so that libraries are loaded before memory is looked at
    memory, words = Memory(task.device), row.split("-")
    is_ours = words[0] == "ours"
    step, batches = (ours if is_ours else open_clips)(task, words), task.batches()
    batches = [(trimmed if is_ours else padded)(batch) for batch in batches]
    began = time.perf_counter()
    loss = step(batches[0]).item()
    first = time.perf_counter() - began
    for number in range(1, task.warmup):
        step(batches[number % BATCHES]).item()
    return Measured(loss, _seconds(step, batches, task), memory.peak(), first)


def _seconds(step: Callable[[Batch], torch.Tensor], batches: list[Batch], task: Task) -> float:
    """Seconds per step: the median on a CPU, the mean on a GPU, which may be at work on several steps at once."""
    clock = time.process_time if task.device == "cpu" and task.threads == 1 else time.perf_counter
    seconds, start = [], clock()
    for number in range(task.steps):
        loss = step(batches[number % BATCHES])
        if task.device == "cpu" or number == task.steps - 1:
            loss.item()
            seconds.append(clock() - start)
            start = clock()
    return statistics.median(seconds) if task.device == "cpu" else seconds[0] / task.steps


class Memory:
    """The most that was used since it was made."""

    def __init__(self, device: str):
        self.device = device
        if device == "cuda":
            torch.compiler.reset()  # what it compiled, and cycles of references, would keep an earlier row's tensors
            gc.collect()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        else:
            self.resident = Resident()

    def peak(self) -> int:
        return torch.cuda.max_memory_allocated() if self.device == "cuda" else self.resident.peak()


def main() -> None:
    options = _options()
    shards, count = options.captions, BATCHES * options.batch
    lengths = read_lengths(shards, count) if shards else drawn_lengths(count, options.caption_length)
    sizes = MODELS[options.model]
    task = Task(sizes, lengths.view(BATCHES, -1), options.device, options.precision, 3, options.steps, options.threads)
    real = statistics.mean(map(sizes.flops, task.lengths))
    padded = sizes.flops(torch.full((options.batch,), CONTEXT))
    where = torch.cuda.get_device_name() if options.device == "cuda" else f"CPU, {options.threads} thread(s)"
    print(
        f"{options.model}, {options.batch} pairs a step, {options.precision}, {where}, torch {torch.__version__}; "
        f"texts of {lengths.double().mean():.1f} tokens, {lengths.min()} to {lengths.max()}; model TFLOPs a step: "
        f"{real / 1e12:.3g} of real tokens, {padded / 1e12:.3g} with texts of {CONTEXT}"
    )
    columns = ("first loss", "ms a step", "pairs/s", "ratio", "peak MiB", "MFU real", "MFU padded", "first step s")
    print("".join((f"{'':<24}", *(f"{column:>13}" for column in columns))), flush=True)
    slowest = None
    for row in options.rows:
        try:
            with _process(options.device) as run:
                got: Measured = run(partial(measure, row, task))
        except Exception as problem:  # what one row cannot do says nothing of the others
            first_line = (str(problem).splitlines() or [""])[0]
            print(f"{row:<24}  fails: {type(problem).__name__}: {first_line[:150]}", flush=True)
            continue
        slowest = slowest or got.seconds
        use = [f"{flops / got.seconds / options.peak / 1e12:.1%}" if options.peak else "" for flops in (real, padded)]
        cells = (
            f"{got.loss:.5f}", f"{got.seconds * 1e3:,.1f}", f"{options.batch / got.seconds:,.0f}",
            f"{slowest / got.seconds:.2f}", f"{got.peak / 2**20:,.0f}", *use, f"{got.first:.1f}",
        )  # fmt: skip
        print("".join((f"{row:<24}", *(f"{cell:>13}" for cell in cells))), flush=True)


class _process:
    """A process of its own on a CPU, where memory is the process's; this one on a GPU, where starting takes long."""

    def __init__(self, device: str):
        self.pool: Any = ProcessPoolExecutor(1, get_context("spawn")) if device == "cpu" else nullcontext()

    def __enter__(self) -> Callable[[Callable[[], Measured]], Measured]:
        pool = self.pool.__enter__()
        return (lambda work: pool.submit(work).result()) if pool else lambda work: work()

    def __exit__(self, *error: object) -> None:
        self.pool.__exit__(*error)


def _row(name: str) -> str:
    base = next((row for row in reversed(ROWS) if name == row or name.startswith(f"{row}-")), "")
    words = name.removeprefix(base).strip("-").split("-") if base else ["?"]
    if words != [""] and (not base.startswith("ours") or not set(words) <= set(WORDS)):
        raise argparse.ArgumentTypeError(f"rows are {', '.join(ROWS)}, ours with words of {', '.join(WORDS)} behind")
    return name


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="small")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--captions", type=Path)
    parser.add_argument("--caption-length", type=float, default=FLICKR8K_MEAN)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", choices=("float32", "bf16"), default="float32")
    parser.add_argument("--rows", nargs="+", type=_row, default=["open_clip", "ours"])
    parser.add_argument("--steps", type=int, default=8, help="timed, after 3 that are not")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peak", type=float, default=0.0, help="TFLOP/s; 989 for bf16 on an H100 or H200")
    return parser.parse_args()


if __name__ == "__main__":
    main()
