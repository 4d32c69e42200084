"""What each of several processes does in test_distributed_checkpoint.py: save sharded tensors, and load the checkpoints
that are there into such; the first writes what all loaded."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from test_distributed_checkpoint import TENSORS
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from equipoise.training.checkpoint.distributed_checkpoint import SHARDED, TRAINED, CheckpointReader, save_sharded
from equipoise.training.distributed.dtensors import gather_full
from equipoise.training.distributed.process_group import process_group

out = Path(sys.argv[1])
with process_group() as ranks:
    mesh = init_device_mesh("cpu", (ranks.world,))
    sharded = {name: distribute_tensor(tensor, mesh, [Shard(0)]) for name, tensor in TENSORS.items()}
    mine = out / f"by-{ranks.world}"
    save_sharded({f"{TRAINED}{name}": tensor for name, tensor in sharded.items()}, mine / SHARDED)
    for folder in ranks.on_main(lambda: [path for path in out.iterdir() if path.is_dir() and path != mine]):
        stored = CheckpointReader(folder)
        live = {n: torch.zeros_like(tensor) for n, tensor in sharded.items() if n in stored.names(TRAINED)}
        stored.fill(live, TRAINED)
        found = gather_full(live, ranks)
        if ranks.is_main:
            save_file(found, out / f"{folder.name}-read-by-{ranks.world}.safetensors")
