"""A view of an image foretells the other: the loss of SimSiam.

Chen & He 2021, "Exploring Simple Siamese Representation Learning", Eq. 4.

    L = -½ [ mean_i cos(p_i, sg(z'_i)) + mean_i cos(p'_i, sg(z_i)) ]        from -1, both alike, to 1

z, z' [N, d] the projected views, p, p' what is predicted from them; no gradient flows into z (sg), which is what keeps
all images from becoming one point (their §4.1).
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def simsiam(projected: tuple[Tensor, Tensor], predicted: tuple[Tensor, Tensor]) -> Tensor:
    first = F.cosine_similarity(predicted[0], projected[1].detach(), dim=1).mean()
    second = F.cosine_similarity(predicted[1], projected[0].detach(), dim=1).mean()
    return -(first + second) / 2
