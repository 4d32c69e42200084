"""Pictures for convolutions: channels last on a GPU, untouched elsewhere, the same numbers either way."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from equipoise.ops.memory_format import for_convolutions


def test_a_processor_gets_them_as_they_are():
    images = torch.randn(2, 3, 8, 8)
    assert for_convolutions(images) is images


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_weights_and_their_gradients_lie_as_before():
    torch.manual_seed(0)
    images, conv = torch.randn(2, 3, 8, 8, device="cuda"), nn.Conv2d(3, 4, 3).cuda()
    found = conv(for_convolutions(images))
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(found, conv(images), atol=1e-3)
    found.sum().backward()
    assert conv.weight.grad.stride() == conv.weight.stride(), "which optimisers that fuse their steps rely on"
