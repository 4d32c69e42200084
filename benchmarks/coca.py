"""A CoCa beside open_clip's, in one run: `python benchmarks/coca.py` (one training step, then captions a second).

Both train the same CoCa from the same weights on the same random images and texts: AdamW, gradients clipped to 1,
contrast and captions weighted 1 and 2. open_clip pads texts to the context, as its tokenizer does, and makes all logits
at once; ours are as long as they are, and logits exist in tiles. Lengths are drawn as they occur among the captions of
Flickr8k. The first loss stands in the table: where both compute the same, it is the same.

Captions are written by the same random weights, to their longest length: greedy and by 4 beams, with cached keys and
values and without; open_clip's own `generate` (no cache), where the installed transformers lets it, draws among the one
likeliest word, which is greedy.

    --device cuda --model coca_ViT-B-32 --batch 256 --precision bf16 --pictures 256      on a GPU
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from caption_lengths import FLICKR8K_MEAN, drawn_lengths
from open_clip_peer import make_torchvision_importable
from torch import Tensor

from equipoise.interop.key_mapping import to_ours
from equipoise.interop.open_clip.coca import NAMES, named_coca, read_config
from equipoise.interop.open_clip.coca_keys import KEY_MAP, apart
from equipoise.models.captioning import Decoding
from equipoise.models.logit_scale import LogitScale
from equipoise.models.model import Model
from equipoise.objectives import CoCa
from equipoise.readouts import ClassToken
from equipoise.spaces import Sphere
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import Batch

SMALL = {
    "embed_dim": 128,
    "vision_cfg": {
        "image_size": 64, "layers": 4, "width": 192, "patch_size": 16, "attentional_pool": True,
        "attn_pooler_queries": 64, "output_tokens": True,
    },
    "text_cfg": {
        "context_length": 76, "vocab_size": 49408, "width": 128, "heads": 2, "layers": 4, "embed_cls": True,
        "output_tokens": True,
    },
    "multimodal_cfg": {"context_length": 76, "vocab_size": 49408, "width": 128, "heads": 2, "layers": 4},
}  # fmt: skip
LONGEST = 20


class Tokens:
    """Stands where a tokenizer does."""

    def __init__(self, size: int, context: int):
        self.size, self.context, self.start, self.end, self.pad, self.mask_id = (
            size,
            context,
            size - 2,
            size - 1,
            0,
            None,
        )


def peer(config: dict[str, Any]) -> Any:
    make_torchvision_importable()
    from open_clip.coca_model import CoCa as TheirCoCa

    torch.manual_seed(0)
    model = TheirCoCa(**config)
    torch.nn.init.normal_(model.text_decoder.text_projection, std=config["embed_dim"] ** -0.5)  # it is left empty
    return model


def ours(config: dict[str, Any], theirs: Any) -> tuple[Model, CoCa]:
    plain = read_config(config, "benchmark")
    objective = CoCa(decoder=plain.decoder)
    model = Model(
        image=plain.image, text=plain.text, readout=ClassToken.Config(), space=Sphere(plain.dim),
        temperature=LogitScale(), preprocess=plain.preprocess, tokens=Tokens(plain.vocabulary, plain.context),
        heads=objective.heads,
    )  # fmt: skip
    model.load_state_dict(to_ours(apart(theirs.state_dict()), KEY_MAP))
    return model, objective


def random_batch(config: dict[str, Any], size: int, device: str) -> Batch:
    make, context = torch.Generator().manual_seed(0), config["text_cfg"]["context_length"]
    vocabulary, pixels = config["text_cfg"]["vocab_size"], config["vision_cfg"]["image_size"]
    lengths = drawn_lengths(size, FLICKR8K_MEAN).clamp(max=context)
    ids = torch.randint(1, vocabulary - 2, (size, context), generator=make)
    mask = torch.arange(context) < lengths[:, None]
    ids = (ids * mask).scatter(1, lengths[:, None] - 1, vocabulary - 1)
    images = torch.randn(size, 3, pixels, pixels, generator=make)
    return Batch(*(tensor.to(device) for tensor in (images, ids, mask, torch.arange(size))))


def their_step(model: Any, settings: Training, device: torch.device) -> Callable[[Batch], float]:
    from open_clip.loss import CoCaLoss

    compare = CoCaLoss(caption_loss_weight=2.0, clip_loss_weight=1.0, pad_id=0)
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, betas=settings.betas, eps=settings.epsilon)
    autocast = settings.autocast(device)

    def step(batch: Batch) -> float:
        optimizer.zero_grad()
        with autocast:
            made = model(batch.images, batch.tokens)
            loss = sum(compare(*(made[name] for name in ("image_features", "text_features", "logits", "labels")),
                               made["logit_scale"]))  # fmt: skip
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm)
        optimizer.step()
        return loss.item()

    return step


def our_step(model: Model, objective: CoCa, settings: Training, device: torch.device) -> Callable[[Batch], float]:
    step = Step(model, objective, settings, device)

    def trimmed(batch: Batch) -> Batch:
        """As our tokenizer makes it: as wide as the longest text."""
        width = -4 * (-int(batch.mask.sum(1).max()) // 4)
        return Batch(batch.images, batch.tokens[:, :width], batch.mask[:, :width], batch.index)

    return lambda batch: step(trimmed(batch), 1).loss.total.item()


def timed(work: Callable[[], Any], times: int, device: str) -> float:
    """Median seconds; the process's own on a CPU, so that other work on the machine matters little."""
    seconds = []
    for _ in range(times):
        clock = time.perf_counter if device == "cuda" else time.process_time
        start = clock()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(clock() - start)
    return statistics.median(seconds)


def peak_memory(device: str) -> str:
    return f"{torch.cuda.max_memory_allocated() / 2**20:>12,.0f}" if device == "cuda" else f"{'':>12}"


def training(config: dict[str, Any], options: argparse.Namespace) -> None:
    device, batch = torch.device(options.device), random_batch(config, options.batch, options.device)
    settings = Training(warmup_steps=0, learning_rate=1e-4, precision=options.precision)
    print(f"{'training step':<28}{'first loss':>12}{'ms':>12}{'pairs/s':>12}{'ratio':>8}{'peak MiB':>12}")
    slowest = 0.0
    for row in ("open_clip", "ours"):
        if options.device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        theirs = peer(config)
        if row == "ours":
            model, objective = ours(config, theirs)
            step = our_step(model.to(device).train(), objective, settings, device)
        else:
            step = their_step(theirs.to(device).train(), settings, device)
        first = step(batch)
        step(batch)
        seconds = timed(lambda step=step: step(batch), options.steps, options.device)
        slowest = slowest or seconds
        speed, ratio = options.batch / seconds, slowest / seconds
        print(
            f"{row:<28}{first:>12.4f}{seconds * 1e3:>12.1f}{speed:>12.1f}{ratio:>8.2f}{peak_memory(options.device)}",
            flush=True,
        )


@torch.no_grad()
def captions(config: dict[str, Any], options: argparse.Namespace) -> None:
    device, theirs = options.device, peer(config).eval()
    theirs.text_decoder.text_projection[:, -1] = 0  # no caption ends early: each costs the same
    images = random_batch(config, options.pictures, device).images
    model = ours(config, theirs)[0].to(device).eval()
    print(f"\n{f'captions of {LONGEST} tokens':<28}{'seconds':>12}{'captions/s':>12}{'ratio':>8}")
    generate = their_generate(theirs.to(device), images)
    rows: dict[str, Callable[[], Any]] = {} if generate is None else {"open_clip, greedy": generate}
    for method in ("greedy", "beam"):
        for cache in (False, True):
            settings = Decoding(method, LONGEST, LONGEST - 1, cache=cache)
            words = f"ours, {method}, {'cached' if cache else 'no cache'}"
            rows[words] = lambda settings=settings: model.caption_batch(images, settings, None, 0)
    slowest = 0.0
    for name, work in rows.items():
        work()
        seconds = timed(work, 3, device)
        slowest = seconds if name.endswith(("no cache", "greedy")) else slowest
        speed, ratio = options.pictures / seconds, slowest / seconds
        print(f"{name:<28}{seconds:>12.2f}{speed:>12.1f}{ratio:>8.2f}", flush=True)


def their_generate(model: Any, images: Tensor) -> Callable[[], Any] | None:
    """open_clip's own, greedy; it gives up all of it for want of a BeamSearchScorer, which this does not need."""
    try:
        from open_clip import coca_model
        from transformers import TopKLogitsWarper
    except ImportError:
        return None
    coca_model._has_transformers = True
    coca_model.GENERATION_TYPES["top_k"] = TopKLogitsWarper
    size = model.text_decoder.text_projection.shape[1]
    ids = {"sot_token_id": size - 2, "eos_token_id": size - 1, "pad_token_id": 0}
    sizes = {"seq_len": LONGEST, "min_seq_len": LONGEST - 1, "generation_type": "top_k", "top_k": 1}
    return lambda: model.generate(images, **sizes, **ids)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("small", *NAMES), default="small")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--pictures", type=int, default=16)
    parser.add_argument("--steps", type=int, default=5, help="timed, after 2 that are not")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", choices=("float32", "bf16"), default="float32")
    options = parser.parse_args()
    torch.set_num_threads(1)
    config = SMALL if options.model == "small" else named_coca(options.model)
    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU, 1 thread"
    print(f"{options.model}, {options.batch} pairs a step, {options.precision}, {where}, torch {torch.__version__}")
    training(config, options)
    captions(config, options)


if __name__ == "__main__":
    main()
