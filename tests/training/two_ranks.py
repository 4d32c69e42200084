"""What each of two processes does in test_ranks.py: three steps on its half of the batches; the first writes."""

from __future__ import annotations

import sys

import torch
from safetensors.torch import save_file
from small_model import objective_named, random_batch, small_model

from equipoise.training.ranks import joined
from equipoise.training.settings import Training
from equipoise.training.step import Step

objective, parallel, micro, impl, out = sys.argv[1:]
torch.set_num_threads(1)
with joined(torch.device("cpu"), timeout_minutes=1) as ranks:
    settings = Training(learning_rate=1e-2, warmup_steps=0, micro_batch=int(micro), parallel=parallel)
    model = small_model().train()
    step = Step(model, objective_named(objective, impl), settings, torch.device("cpu"), ranks)
    mine = slice(ranks.rank * 6, ranks.rank * 6 + 6)
    losses = [step(random_batch(12, seed).map(lambda t: t[mine]), seed).loss.total.item() for seed in (1, 2, 3)]
    state = {
        k: (v.full_tensor() if hasattr(v, "full_tensor") else v).detach().clone() for k, v in model.state_dict().items()
    }
    if ranks.leads:
        save_file({"losses": torch.tensor(losses).double(), **state}, out)
    ranks.wait()
