"""Building a model whose weights come from a file: the random numbers that it would begin with are not drawn.

Of a ViT-B/32 or MPNet they take longer than reading the file. What is left in the memory is overwritten, for the
file's tensors are compared with the model's before (`fill_weights`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.overrides import TorchFunctionMode

# by name, for transformers puts functions of its own in the place of torch.nn.init's
DRAWS = ("normal_", "uniform_", "kaiming_uniform_", "trunc_normal_", "erfinv_")


class Undrawn(TorchFunctionMode):
    """Inside, tensors are left as they are where they would be filled with random numbers."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if getattr(func, "__name__", "") in DRAWS:
            return args[0] if args else named["tensor"]
        return func(*args, **named)
