"""How captions are chosen among all that a model could write."""

from __future__ import annotations

import math
from dataclasses import dataclass

from equipoise.types import UserError

METHODS = ("greedy", "top_k", "top_p", "beam")


@dataclass(frozen=True)
class Decoding:
    """greedy takes the likeliest next word; top_k and top_p draw it among the likeliest k, or among the fewest that
    have the share p together; beam keeps several captions and takes the likeliest as a whole."""

    method: str = "greedy"
    longest: int = 30  # tokens of a caption, start and end included; at most the model's context
    shortest: int = 2  # no caption ends before it has so many, its start included
    beams: int = 4
    length_penalty: float = 1.0  # of beam: log-probabilities are divided by length to this power; 0 favours short ones
    top_k: int = 50
    top_p: float = 0.9
    temperature: float = 1.0  # of top_k and top_p
    seed: int = 0  # of top_k and top_p; each image has draws of its own
    cache: bool = True  # keep keys and values of the words so far; False reads them again for every word

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UserError(f"method must be one of {', '.join(METHODS)}, not {self.method!r}")
        for name, least in (("longest", 3), ("shortest", 0), ("beams", 1), ("top_k", 1)):
            if getattr(self, name) < least:
                raise UserError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if self.shortest >= self.longest:
            raise UserError(f"shortest is {self.shortest}, which longest ({self.longest}) leaves no room for")
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p must be above 0 and at most 1, not {self.top_p}")
        if not 0 < self.temperature < math.inf:
            raise UserError(f"temperature must be above 0, not {self.temperature}")
        if not 0 <= self.length_penalty < math.inf:
            raise UserError(f"length_penalty must be at least 0, not {self.length_penalty}")
        if not 0 <= self.seed < 2**63:
            raise UserError(f"seed is {self.seed}; choose a whole number from 0 to 2^63 - 1")
