"""Keys and values of tokens that were read before: a layout of texts that grow by a word at a time.

    x [N, n, w]      the new tokens of N texts, all of one length so far; each sees itself and what came before it

A causal transformer reads a text that grew by one word without reading the rest again: all it needs of the earlier
words are their keys and values in each block. Each block has a store here, written as the blocks are called in their
order; `advance` ends a pass through all of them. Rows may be taken in another order, or several times, between passes
(`reorder`), as a beam search does.
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.encoders.packing import attend_even, attention


class KeyValueCache:
    """Stores of at most `room` tokens a text. Several texts may be of one picture: `attend_to_others` takes them in
    equal groups, so that what is stored of a picture is stored once."""

    def __init__(self, room: int):
        self.room, self.length = room, 0  # tokens of a text, and how many are read
        self._stores: list[Tensor] = []  # of each block [N, room, 2, h, d]
        self._block = 0  # whose turn it is

    def attend(self, qkv: Tensor) -> Tensor:
        new = qkv.shape[1]
        if self._block == len(self._stores):
            self._stores.append(qkv.new_empty(len(qkv), self.room, 2, *qkv.shape[-2:]))
        store = self._stores[self._block]
        self._block += 1
        end = self.length + new
        store[:, self.length : end] = qkv[:, :, 1:]
        k, v = store[:, :end].unbind(2)
        return attention(qkv[:, :, 0], k, v, **({} if new == 1 else {"attn_mask": self._past(new, qkv.device)}))

    def attend_to_others(self, q: Tensor, kv: Tensor, mask: Tensor | None = None) -> Tensor:
        return attend_even(q.reshape(len(kv), -1, *q.shape[2:]), kv, mask).view(q.shape)

    def read(self, x: Tensor) -> Tensor:
        return x[:, -1:]

    def attend_to_read(self, q: Tensor, kv: Tensor) -> Tensor:
        raise NotImplementedError("texts that grow are read at every new word")

    def exchange(self, x: Tensor, prompts: Tensor) -> Tensor:
        raise NotImplementedError("texts that grow have no prompts")

    def advance(self, new: int) -> None:
        """End a pass in which `new` tokens of each text were read."""
        self.length, self._block = self.length + new, 0

    def reorder(self, rows: Tensor) -> None:
        """Make text i what text `rows[i]` was."""
        self._stores = [store.index_select(0, rows) for store in self._stores]

    def _past(self, new: int, device: torch.device) -> Tensor:
        """Which tokens each of the new ones sees, bool [new, length + new]."""
        own = torch.arange(self.length, self.length + new, device=device)
        return torch.arange(self.length + new, device=device) <= own[:, None]
