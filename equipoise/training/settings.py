"""How long, how fast and how carefully to train."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from equipoise.encoders.recomputation import CHEAP, Recompute
from equipoise.ops.float8_linear import CAPABILITY, can_float8
from equipoise.ops.tf32 import can_tf32
from equipoise.settings.bounds import SECONDS, bounded, within
from equipoise.training.device import torch_device
from equipoise.training.freezing import TRAINS
from equipoise.training.logging.writer import LOGGERS
from equipoise.training.probe_phase import ProbePhase
from equipoise.types import MOMENTUM, UserError

PRECISIONS = ("auto", "float32", "tf32", "bf16", "float8")
PARALLELS = ("ddp", "fsdp")
EVERYTHING, DIVIDED = "everything", ("gathered", "ring")
EXCHANGES = ("auto", *DIVIDED, EVERYTHING)
ONE_OF = {"precision": PRECISIONS, "parallel": PARALLELS, "trains": TRAINS, "exchange": EXCHANGES}
LEAST = {
    **dict.fromkeys(("steps", "batch_size", "log_every", "keep_last"), 1),
    **dict.fromkeys(("learning_rate", "final_learning_rate", "weight_decay", "epsilon", "clip_norm"), 0),
    **dict.fromkeys(("warmup_steps", "evaluate_every", "checkpoint_every", "checkpoint_minutes"), 0),
    **dict.fromkeys(("workers", "loader_timeout"), 0),
    "rank_timeout": 1,
}


@dataclass(frozen=True)
class Training:
    steps: int = 1000  # of the optimizer
    epochs: float = bounded(0.0, 0, 1e6)  # above 0: so many times through the data, and steps follow (`length.py`)
    batch_size: int = 256  # of the whole run, whatever the number of processes
    micro_batch: int = 0  # samples encoded at once on each process; 0 takes the whole batch
    parallel: str = "ddp"  # several processes: ddp keeps a whole model on each, fsdp a slice of it
    exchange: str = "auto"  # several processes: how they share the work of the loss (`distributed/loss_sharding.py`)
    learning_rate: float = 1e-3  # the highest, behind the warm-up
    final_learning_rate: float = 0.0  # at the end of the cosine
    warmup_steps: int = 100  # in which it rises from 0
    weight_decay: float = 0.2  # AdamW's, of matrices alone
    betas: tuple[float, float] = (0.9, 0.98)  # AdamW's
    epsilon: float = 1e-6  # AdamW's
    clip_norm: float = 1.0  # 0 leaves gradients as they are
    trains: str = "all"  # which parameters: all, readouts, image, text, added (`freezing.py`)
    probe: ProbePhase = field(default_factory=ProbePhase)  # a first phase of the run that trains the readouts alone
    keep_statistics: bool = False  # batch norm goes by its running statistics and leaves them, as in evaluation
    ema: float = 0.0  # decay of the weights' moving average; 0 keeps none
    precision: str = "auto"  # bf16 where the device has it, else float32; tf32, bf16 and float8 are products of a GPU's
    device: str = "auto"  # auto (a GPU where there is one), cpu, cuda, cuda:1
    compile: bool = False  # by torch.compile
    cuda_graphs: bool = False  # one launch for a whole pass: a small model on a GPU waits for its launches
    recompute_activations: Recompute = False  # less memory, more time: blocks pass twice; "cheap": not their products
    evaluate_every: int = 0  # steps; 0 evaluates at the end only
    evaluate_start: bool = False  # before the first step too, so that the best may be where the run started
    checkpoint_every: int = 200  # steps; 0 goes by the clock alone
    checkpoint_minutes: float = 15.0  # besides, when so long has passed since the last one; 0 goes by steps alone
    keep_last: int = 2  # checkpoints, besides the best
    best: str = "mean_recall"  # the validation metric that chooses the best checkpoint
    log_every: int = 10  # steps
    log_gradients: bool = False  # the gradient norm of each term of the loss too, at the steps that are logged
    loggers: tuple[str, ...] = ("tensorboard",)  # besides metrics.jsonl: tensorboard, wandb, mlflow
    workers: int = bounded(0, 0, 1024)  # processes that make batches ahead; 0 leaves it to a thread
    loader_timeout: float = within(SECONDS, 600.0)  # seconds without a batch that end the run; 0 waits for ever
    rank_timeout: float = within(SECONDS, 1800.0)  # seconds that a process waits for the others

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            if not least <= getattr(self, name) < math.inf:
                raise UserError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if self.batch_size == 1:
            raise UserError("batch_size 1 leaves nothing to contrast with (the loss is always 0); use at least 2")
        for name, allowed in ONE_OF.items():
            if getattr(self, name) not in allowed:
                raise UserError(f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}")
        if not set(self.loggers) <= set(LOGGERS) or len(set(self.loggers)) < len(self.loggers):
            raise UserError(f"loggers must be some of {', '.join(LOGGERS)}, each once, not {list(self.loggers)}")
        if not isinstance(self.recompute_activations, bool) and self.recompute_activations != CHEAP:
            raise UserError(
                f'recompute_activations must be true, false or "{CHEAP}", not {self.recompute_activations!r}'
            )
        if not 0 <= self.ema < 1:
            raise UserError(f"ema must be in [0, 1), not {self.ema}")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise UserError(f"betas must be two numbers in [0, 1), not {self.betas}")

    def teacher_roles(self, needs: Sequence[str]) -> list[str]:
        """The roles an objective needs that the EMA makes; raises UserError where there is no EMA to make them."""
        roles = [role for role in needs if role.startswith(MOMENTUM)]
        if roles and not self.ema:
            raise UserError(
                f"the objective needs {', '.join(roles)}, made by the moving average of the weights, but training.ema "
                "is 0; set it to 0.995, say, or choose another guide"
            )
        return roles

    @property
    def cites(self) -> tuple[str, ...]:
        average = ("polyak1992averaging",) if self.ema else ()
        recompute = ("chen2016sublinear",) if self.recompute_activations else ()
        return ("loshchilov2019adamw", "loshchilov2017sgdr", *average, *recompute)

    def torch_device(self) -> torch.device:
        return torch_device(self.device)

    def autocast(self, device: torch.device) -> torch.autocast:
        able = device.type == "cuda" and torch.cuda.is_bf16_supported()
        if self.precision == "bf16" and not able:
            raise UserError(f"precision bf16 needs a GPU with bf16 units, which {device} is not; use auto or float32")
        if self.precision == "float8" and not can_float8(device):
            need = ".".join(map(str, CAPABILITY))
            raise UserError(
                f"precision float8 needs a GPU of compute capability {need} or higher (Ada, Hopper), which {device} is "
                "not; use auto, bf16 or float32"
            )
        if self.precision == "tf32" and not can_tf32(device):
            raise UserError(f"precision tf32 needs a GPU with tensor cores, which {device} is not; use auto or float32")
        wanted = able and self.precision not in ("float32", "tf32")
        # a graph cannot hold what another pass has cast
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=wanted, cache_enabled=not self.cuda_graphs)
