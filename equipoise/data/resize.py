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
    part = torch.from_numpy(pixels).permute(2, 0, 1)[None]
    resized = F.interpolate(part, (height, width), mode="bicubic", antialias=True)[0]
    return resized.permute(1, 2, 0).contiguous().numpy()
