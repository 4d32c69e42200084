"""What each of two processes does in test_finetune_ranks.py: a run of each kind, and the choice at the end of one."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from finetune_runs import described

from equipoise.training.distributed.process_group import process_group
from equipoise.workflows import train_run
from equipoise.workflows.finetune_select import select_weights, write_comparison

PARALLEL = ("ddp", "fsdp")
# The readouts first, then adapters: two sets of parameters, neither of them all.
ADAPTED = ("lora.rank=2", "training.trains=added", "training.probe.share=0.5", "training.evaluate_every=4")

if __name__ == "__main__":
    torch.set_num_threads(1)
    begun, out = Path(sys.argv[1]), Path(sys.argv[2])
    with process_group() as ranks:
        for parallel in PARALLEL:
            loaded, start = described(begun, "lora", *ADAPTED, f"training.parallel={parallel}")
            model, _ = train_run(loaded, out / parallel, ranks, start)
            settled = select_weights(loaded, start, model.tokens, out / parallel, ranks)
            ranks.on_main(lambda told=settled.comparison, of=parallel: write_comparison(out / of, told))
