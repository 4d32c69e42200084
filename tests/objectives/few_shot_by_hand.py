"""Oh et al. 2023, App. A.2, read aloud: loops, float64, plain logarithms, on the unit sphere."""

from __future__ import annotations

from mix_by_hand import Matrix, cross_entropy, dot, mix, scaled
from torch import Tensor


class ByHand:
    """Images, the points of all classes, and the class of every image."""

    def __init__(self, image: Tensor, pivots: Tensor, labels: Tensor, scale: float):
        self.i, self.t, self.y, self.scale = image.tolist(), pivots.tolist(), labels.tolist(), scale
        self.n, self.c = len(self.i), len(self.t)

    def ce(self, logits: Matrix, matches: Matrix) -> float:
        """Rows whose matches share evenly; a row of weights sums to 1."""
        shares = [[weight / sum(row) for weight in row] for row in matches]
        return cross_entropy(scaled(logits, self.scale), shares)

    def same(self) -> Matrix:
        return [[float(self.y[i] == self.y[j]) for j in range(self.n)] for i in range(self.n)]

    def of_class(self) -> Matrix:
        return [[float(self.y[i] == c) for c in range(self.c)] for i in range(self.n)]

    def classes(self) -> float:
        to_pivots = [[dot(self.i[i], self.t[c]) for c in range(self.c)] for i in range(self.n)]
        here = sorted(set(self.y))
        to_images = [[dot(self.t[c], self.i[i]) for i in range(self.n)] for c in here]
        matches = [[float(self.y[i] == c) for i in range(self.n)] for c in here]
        return (self.ce(to_pivots, self.of_class()) + self.ce(to_images, matches)) / 2

    def m2(self, lam: float) -> float:
        a, b = [], []
        for i in range(self.n):
            own = self.t[self.y[i]]
            mixed = mix(lam, self.i[i], own)
            a.append([dot(self.i[i] if c == self.y[i] else mixed, self.t[c]) for c in range(self.c)])
            b.append([dot(own if self.y[j] == self.y[i] else mixed, self.i[j]) for j in range(self.n)])
        return (self.ce(a, self.of_class()) + self.ce(b, self.same())) / 2

    def v(self, lam: float) -> float:
        z, target = [], []
        for i in range(self.n):
            k = self.n - 1 - i
            mixed = mix(lam, self.i[i], self.i[k])
            crossed = (self.y[i], self.y[k])
            z.append([dot(mixed if c in crossed else self.i[i], self.t[c]) for c in range(self.c)])
            target.append([lam * (c == self.y[i]) + (1 - lam) * (c == self.y[k]) for c in range(self.c)])
        here = sorted(set(self.y))
        back = [[z[i][c] for i in range(self.n)] for c in here]
        back_target = [[target[i][c] for i in range(self.n)] for c in here]
        return (self.ce(z, target) + self.ce(back, back_target)) / 2

    def vocal(self, lam: float) -> float:
        """L: the mass λ of a class is shared by its images, the rest by those of the other."""
        z, target, back_target = [], [], []
        for i in range(self.n):
            k = self.n - 1 - i
            mixed = mix(lam, self.t[self.y[i]], self.t[self.y[k]])
            crossed = (self.y[i], self.y[k])
            z.append([dot(mixed if self.y[j] in crossed else self.t[self.y[i]], self.i[j]) for j in range(self.n)])
            sizes = [self.y.count(self.y[i]), self.y.count(self.y[k])]
            shares = [(lam * (y == self.y[i]), (1 - lam) * (y == self.y[k])) for y in self.y]
            target.append([a / sizes[0] + b / sizes[1] for a, b in shares])
            back_target.append([a + b for a, b in shares])
        turned = [[z[i][j] for i in range(self.n)] for j in range(self.n)]
        turned_target = [[back_target[i][j] for i in range(self.n)] for j in range(self.n)]
        return (self.ce(z, target) + self.ce(turned, turned_target)) / 2

    def vl(self, lam: float) -> float:
        p, q = [], []
        for i in range(self.n):
            k = self.n - 1 - i
            own = self.t[self.y[i]]
            pair = dot(mix(lam, self.i[i], self.i[k]), mix(lam, own, self.t[self.y[k]]))
            p.append([pair if c == self.y[i] else dot(self.i[i], self.t[c]) for c in range(self.c)])
            q.append([pair if j == i else dot(own, self.i[j]) for j in range(self.n)])
        return (self.ce(p, self.of_class()) + self.ce(q, self.same())) / 2
