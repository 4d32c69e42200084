"""What the other captions of an image say of a caption: the share of wrong ones among captions with such siblings.

Where captions were passed on image by image, one wrong caption means that all are; where single ones are wrong, the
others tell nothing. Which of the two it is shows in the pairs themselves. With r of each caption (noise.py) and

    m = mean over the other captions of the same image of P(right),     P(right) = (1 - π) r / ((1 - π) r + π)

the captions of nearly equal m are a set of pairs like any other, so that the share of wrong ones among them is the

    π(m) = argmax over π of mean log((1 - π) r + π)

made to fall with m (isotonic regression), and a caption is right with probability (1 - π(m)) r / ((1 - π(m)) r + π(m)).
Captions of pictures that are hard for the judge look wrong together too, so π(m) says where the wrong ones are and π
how many they are: all π(m) are made smaller, by one factor of their odds, where their mean is above π.
π(m) is level where siblings tell nothing, and P(right) then that of the caption by itself; it falls from 1 to 0 where
they tell all. Captions that have no siblings go by π.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from equipoise.analysis.noise import SHARES, probability_right

BIN = 200  # captions at least, of which one share is read
BINS = 20


@dataclass(frozen=True)
class Siblings:
    """π(m) as it was read off a set of captions."""

    share: float  # π of all
    centres: np.ndarray  # m [bins]; none where the captions were too few to tell levels of m apart
    shares: np.ndarray  # π(m) [bins]
    factor: float = 1.0  # of their odds

    def share_of(self, log_ratio: np.ndarray, owners: np.ndarray) -> np.ndarray:
        """π(m) of each caption [M], of this set or of another, from its log r and the number of its image [M]."""
        found = np.full(len(log_ratio), self.share)
        if len(self.centres):
            mean, some = _mean_of_others(log_ratio, owners, self.share)
            found[some] = _smaller(np.interp(mean, self.centres, self.shares), self.factor)
        return found

    def right(self, log_ratio: np.ndarray, owners: np.ndarray) -> np.ndarray:
        """P(right) of each caption [M], by its own evidence and that of its image's other captions."""
        return _right(log_ratio, self.share_of(log_ratio, owners))


def read_siblings(log_ratio: np.ndarray, owners: np.ndarray, share: float) -> Siblings:
    """π(m) of captions, from log r of each [M], the number of its image [M] and π of all."""
    mean, some = _mean_of_others(log_ratio, owners, share)
    bins = min(BINS, len(mean) // BIN)
    if bins < 2:
        return Siblings(share, np.zeros(0), np.zeros(0))
    parts = np.array_split(np.argsort(mean, kind="stable"), bins)
    centres = np.array([mean[part].mean() for part in parts])
    shares = _falling(np.array([_likeliest(log_ratio[some][part]) for part in parts]))
    return Siblings(share, centres, shares, _factor(np.interp(mean, centres, shares), share))


def _mean_of_others(log_ratio: np.ndarray, owners: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
    """m of the captions that have siblings, and which these are (bool [M])."""
    others = np.bincount(owners)[owners] - 1
    some = others > 0
    right = _right(log_ratio, np.array(share))
    return (np.bincount(owners, right)[owners] - right)[some] / others[some], some


def _factor(shares: np.ndarray, wanted: float) -> float:
    """What the odds of shares are to be made smaller by, so that their mean is `wanted`, where it is larger."""
    if shares.mean() <= wanted:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        factor = (low + high) / 2
        low, high = (factor, high) if _smaller(shares, factor).mean() < wanted else (low, factor)
    return high


def _smaller(shares: np.ndarray, factor: float) -> np.ndarray:
    """Shares with their odds made smaller by a factor."""
    if factor == 1.0:
        return shares
    shares = shares.clip(max=1 - float(SHARES[1]) / 2)  # the odds of 1 would stay
    return factor * shares / (1 - shares + factor * shares)


def siblings_share(log_ratio: np.ndarray, owners: np.ndarray, share: float) -> np.ndarray:
    """π(m) of each caption [M], from its log r [M], the number of its image [M] and π of all."""
    return read_siblings(log_ratio, owners, share).share_of(log_ratio, owners)


def right_with_siblings(log_ratio: np.ndarray, owners: np.ndarray, share: float) -> np.ndarray:
    """P(right) of each caption [M], by its own evidence and that of its image's other captions."""
    return read_siblings(log_ratio, owners, share).right(log_ratio, owners)


def _likeliest(log_ratio: np.ndarray) -> float:
    ratio = torch.from_numpy(log_ratio).double()
    likelihoods = torch.logaddexp(ratio + torch.log1p(-SHARES)[:, None], SHARES.log()[:, None]).mean(dim=1)
    return float(SHARES[likelihoods.argmax()])


def _falling(values: np.ndarray) -> np.ndarray:
    """The nearest values that never rise: neighbours that do are replaced by their mean, until none is left."""
    blocks: list[tuple[float, int]] = []
    for value in values.tolist():
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            (first, many), (last, more) = blocks[-2:]
            blocks[-2:] = [((first * many + last * more) / (many + more), many + more)]
    return np.repeat([value for value, _ in blocks], [count for _, count in blocks])


def _right(log_ratio: np.ndarray, share: np.ndarray) -> np.ndarray:
    return probability_right(torch.from_numpy(log_ratio).double(), torch.from_numpy(share).double()).numpy()
