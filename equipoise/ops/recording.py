"""Whether a CUDA graph is being recorded: then nothing may ask the GPU for a number (`training/cuda_graphs.py`)."""

from __future__ import annotations

import torch


def is_recording() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
