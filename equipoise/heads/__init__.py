"""What an objective asks of a model beyond points: parameters and memories that only training needs.

An objective lists heads by name (`Objective.heads`), the model builds them and calls those whose roles are needed.
They are saved with the model, so that training can go on; `encode_image` and `encode_text` never look at them.
"""

from __future__ import annotations

from equipoise.heads.head import Head, HeadConfig, Seen, Sizes
from equipoise.heads.logit_scale import OwnScale
from equipoise.heads.mlm import MaskedWords
from equipoise.heads.simclr import Projector
from equipoise.heads.simsiam import Twins
from equipoise.heads.text_queue import Nearest

__all__ = ["Head", "HeadConfig", "MaskedWords", "Nearest", "OwnScale", "Projector", "Seen", "Sizes", "Twins"]
