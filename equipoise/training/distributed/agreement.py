"""What the ranks of a run must have in common, compared before they work together.

Ranks with other settings, data, weights or versions would train side by side without a word, each at something else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

import equipoise
from equipoise.data.digest import source_digest
from equipoise.data.source import Source
from equipoise.models.model import Model
from equipoise.settings.difference import differences, told
from equipoise.training.distributed.ranks import Ranks
from equipoise.types import UserError

PREFIX = "EQUIPOISE_"  # of variables that programs around a run may set for its parts
VARIABLES = (  # others that decide what is computed, or with how many digits
    "CUBLAS_WORKSPACE_CONFIG",
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TRITON_INTERPRET",
)
Facts = Mapping[str, Any]  # by name; tables within it count key by key


def require_agreement(ranks: Ranks, facts: Callable[[], Facts]) -> None:
    """Raise UserError on all ranks where one's facts are not the first rank's; one process alone gathers none."""
    if ranks.world > 1:
        require_equal(ranks.gather_objects(ranks.on_each(facts)))


def require_equal(everyone: Sequence[Facts]) -> None:
    """Raise UserError where the facts of a rank, in their order, are not those of the first."""
    for rank, theirs in enumerate(everyone):
        if changes := differences(everyone[0], theirs):
            raise UserError(
                f"the processes of this run disagree: {told(changes, 'on rank 0', f'on rank {rank}')}; start all of "
                "them with the same recipe, options, data and versions"
            )


def data_facts(name: str, source: Source) -> dict[str, Any]:
    """Facts about the data of a split."""
    return {
        f"the number of {name} records": len(source),
        f"the digest of {name} keys and captions": source_digest(source),
    }


def model_facts(model: Model) -> dict[str, Any]:
    """Facts about a model: digests of its weights and of its tokenizer."""
    weights, tokens = blake2b(digest_size=8), blake2b(digest_size=8)
    for name, tensor in model.state_dict().items():
        weights.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        weights.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    if model.tokens.size:
        tokens.update(repr((model.tokens.context, model.tokens.description())).encode())
    return {"the digest of the weights": weights.hexdigest(), "the digest of the tokenizer": tokens.hexdigest()}


def environment_facts() -> dict[str, Any]:
    """Facts about this process that recipes do not name: versions, the kind of device, switches of torch."""
    has_gpu = torch.cuda.is_available()
    given = {name: value for name, value in os.environ.items() if name in VARIABLES or name.startswith(PREFIX)}
    return {
        "the version of equipoise": f"{equipoise.__version__} (code {code_digest()})",
        "the version of torch": torch.__version__,
        "the device": "cuda" if has_gpu else "cpu",
        "bf16": has_gpu and torch.cuda.is_bf16_supported(),
        "torch's default type": str(torch.get_default_dtype()),
        "torch.use_deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "torch.set_float32_matmul_precision": torch.get_float32_matmul_precision(),
        "torch.backends.cudnn.allow_tf32": torch.backends.cudnn.allow_tf32,
        "torch.backends.cudnn.deterministic": torch.backends.cudnn.deterministic,
        **{f"the environment variable {name}": value for name, value in sorted(given.items())},
    }


@cache
def code_digest() -> str:
    """Digest of the package's own source, for two copies under development may call themselves the same version."""
    digest, package = blake2b(digest_size=4), Path(equipoise.__file__).parent
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()
