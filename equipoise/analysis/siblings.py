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

import numpy as np
import torch

from equipoise.analysis.noise import SHARES, probability_right

BIN = 200  # captions at least, of which one share is read
BINS = 20


def siblings_share(log_ratio: np.ndarray, owners: np.ndarray, share: float) -> np.ndarray:
    """π(m) of each caption [M], from its log r [M], the number of its image [M] and π of all."""
    found = np.full(len(log_ratio), share)
    others = np.bincount(owners)[owners] - 1
    some = others > 0
    bins = min(BINS, int(some.sum()) // BIN)
    if bins < 2:  # too few to tell levels of m apart
        return found
    right = _right(log_ratio, np.array(share))
    mean = (np.bincount(owners, right)[owners] - right)[some] / others[some]
    parts = np.array_split(np.argsort(mean, kind="stable"), bins)
    centres = np.array([mean[part].mean() for part in parts])
    shares = _falling(np.array([_likeliest(log_ratio[some][part]) for part in parts]))
    found[some] = _with_mean(np.interp(mean, centres, shares), share)
    return found


def _with_mean(shares: np.ndarray, wanted: float) -> np.ndarray:
    """Shares with their odds made smaller by one factor, so that the mean is `wanted`, where it is larger."""
    if shares.mean() <= wanted:
        return shares
    shares = shares.clip(max=1 - float(SHARES[1]) / 2)  # the odds of 1 would stay
    low, high = 0.0, 1.0
    for _ in range(60):
        factor = (low + high) / 2
        scaled = factor * shares / (1 - shares + factor * shares)
        low, high = (factor, high) if scaled.mean() < wanted else (low, factor)
    return high * shares / (1 - shares + high * shares)


def right_with_siblings(log_ratio: np.ndarray, owners: np.ndarray, share: float) -> np.ndarray:
    """P(right) of each caption [M], by its own evidence and that of its image's other captions."""
    return _right(log_ratio, siblings_share(log_ratio, owners, share))


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
