"""Pixels at another size, bicubic and antialiased, by what the processor is fast at.

torch's 8-bit resize has code of its own for AVX2 and is faster than Pillow's there; elsewhere, on ARM for instance, it
has none. The two give the same values, give or take one level.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

BY_TORCH = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")


def resize_pixels(pixels: np.ndarray, width: int, height: int) -> np.ndarray:
    """uint8 [H, W, 3] -> [height, width, 3]."""
    if not BY_TORCH:
        return np.array(Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC))
    # the batch's dimension goes in front before channels do, or torch takes this for planes and turns all it made
    part = torch.from_numpy(pixels)[None].permute(0, 3, 1, 2)
    resized = F.interpolate(part, (height, width), mode="bicubic", antialias=True)[0]
    return resized.permute(1, 2, 0).contiguous().numpy()
