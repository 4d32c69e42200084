"""What each of two processes does in test_fused_ranks.py: gradients of its half of a batch; the first writes."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from small_model import part_of
from test_fused_ranks import BATCH, CASES, drawing, started

from equipoise.training.distributed.dtensors import gather_full
from equipoise.training.distributed.process_group import process_group

torch.set_num_threads(1)
with process_group() as ranks:
    for case in CASES:
        step, average = started(*case, ranks)
        drawing(ranks.rank)
        loss = step._backward(part_of(BATCH, *ranks.share), average)
        named = step.model.named_parameters()
        grads = gather_full({name: weight.grad for name, weight in named if weight.grad is not None}, ranks)
        if ranks.is_main:
            found = {**grads, "loss": loss.total.detach(), **step.model.recall(("image_queue", "text_queue"))}
            save_file(found, Path(sys.argv[1]) / f"{'-'.join(case)}.safetensors")
