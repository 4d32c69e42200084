# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="untyped-decorator"
"""Triton kernels of a softened contrast's end: its terms from a few numbers of every sample, and their derivatives.

Gao et al. 2024 (SoftCLIP), Eq. 8-16, with the sums over pairs taken out. Of one side (an image among texts: logits z,
scores s of its guide, its match z₀ and s₀; or a text among images), the negatives alone give

    â = log Σ e^z,  b̂ = log Σ e^s,  Q = Σ q̂ (z - s),  P = Σ p̂ (z - s)        q̂ = e^(z - â),  p̂ = e^(s - b̂)

and with the match a = log(e^â + e^z₀), b = log(e^b̂ + e^s₀), h = z₀ - a, ℓ = log((1 - β) + β e^(s₀ - b)):

    KL(p‖q)  T₁ = β π_p E₁ + e^ℓ (ℓ - h)      E₁ = log β + a - b - P      π_p = e^(b̂ - b)   p₀ = e^(s₀ - b)
    KL(q‖p)  T₂ = π_q E₂ + q₀ (h - ℓ)         E₂ = Q - a + b - log β      π_q = e^(â - a)   q₀ = e^h
    negatives alone  T₃ = â - b̂ - P,  T₄ = Q - â + b̂          CLIP  T₅ = -h

A side without a guide has T₁ = T₂ = -h and T₃ = T₄ = 0; so have those of a sample alone T₃ and T₄. With κ = β π_p p₀
and ω = π_q q₀ the derivatives are

         â                      Q     b̂                             P        z₀                 s₀
    T₁   π_q                    0     κ (E₁ - ℓ + h - 1) - β π_p²   -β π_p   q₀ - e^ℓ           -κ (E₁ - ℓ + h)
    T₂   ω (E₂ - h + ℓ) - π_q   π_q   π_q π_p + q₀ κ e^-ℓ           0        -ω (E₂ - h + ℓ)    π_q p₀ - q₀ κ e^-ℓ
    T₃   1                      0     -1                            -1       0                  0
    T₄   -1                     1     1                             0        0                  0
    T₅   π_q                    0     0                             0        -π_q               0

and f = d loss / d (â, Q, b̂, P) gives every pair's part (`softclip_kernels.py`):

    ∂z = q̂ (f_â + f_Q (1 + z - s - Q)) + p̂ f_P         ∂s = p̂ (f_b̂ + f_P (z - s - P - 1)) - q̂ f_Q

Errors. Means are convex: a part of a mean, and the merging of two, errs by a few units in the last place of the
largest |z - s| that has weight, and z and s are themselves known no better than that. The match is never subtracted
from a sum, so a sum that is all match loses no digit of the rest. What is done here is done in float64.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def write_terms(
    total, hits, known, counts, parts, log_beta, log_rest, count,
    ALONE: tl.constexpr, KNOWN: tl.constexpr, WEIGHTED: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """parts [2, 5, programs], float64: sums of T₁ to T₅ of images (the program's second number 0) or texts, each sample
    as often as `counts` [count], float64, says where they are WEIGHTED."""
    side, at = tl.program_id(1), tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    inside = at < count
    log_q, mean_q, log_p, mean_p, match, own = _numbers(total, hits, side, at, inside, count)
    a, b = _log_sum(log_q, match), _log_sum(log_p, own)
    hit = match - a
    share = _log_sum(log_beta + own - b, log_rest)
    there = tl.exp(log_beta + log_p - b) * (log_beta + a - b - mean_p) + tl.exp(share) * (share - hit)
    back = tl.exp(log_q - a) * (mean_q - a + b - log_beta) + tl.exp(hit) * (hit - share)
    apart = log_q - log_p
    rest_there, rest_back = apart - mean_p, mean_q - apart
    if KNOWN:
        guided = tl.load(known + side * count + at, mask=inside, other=0) != 0
        there, back = tl.where(guided, there, -hit), tl.where(guided, back, -hit)
        rest_there, rest_back = tl.where(guided, rest_there, 0.0), tl.where(guided, rest_back, 0.0)
    if ALONE:
        rest_there, rest_back = rest_there * 0.0, rest_back * 0.0
    clip = -hit
    if WEIGHTED:
        times = tl.load(counts + at, mask=inside, other=0.0)
        there, back, clip = there * times, back * times, clip * times
        rest_there, rest_back = rest_there * times, rest_back * times
    programs = tl.num_programs(0)
    to = parts + side * 5 * programs + tl.program_id(0)
    tl.store(to, tl.sum(tl.where(inside, there, 0.0), 0))
    tl.store(to + programs, tl.sum(tl.where(inside, back, 0.0), 0))
    tl.store(to + 2 * programs, tl.sum(tl.where(inside, rest_there, 0.0), 0))
    tl.store(to + 3 * programs, tl.sum(tl.where(inside, rest_back, 0.0), 0))
    tl.store(to + 4 * programs, tl.sum(tl.where(inside, clip, 0.0), 0))


@triton.jit
def write_sides(
    total, hits, known, counts, weights, sides, matches, log_beta, log_rest, count,
    ALONE: tl.constexpr, KNOWN: tl.constexpr, WEIGHTED: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """From weights [2, 5] of the terms: sides [2, 6, count] and matches [3, count] for `softclip_kernels.py`."""
    at = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    inside = at < count
    of_match = tl.zeros((WIDE,), tl.float64)
    for side in tl.static_range(2):
        log_q, mean_q, log_p, mean_p, match, own = _numbers(total, hits, side, at, inside, count)
        w1, w2, w3 = tl.load(weights + 5 * side), tl.load(weights + 5 * side + 1), tl.load(weights + 5 * side + 2)
        w4, w5 = tl.load(weights + 5 * side + 3), tl.zeros((WIDE,), tl.float64) + tl.load(weights + 5 * side + 4)
        w1, w2, w3, w4 = w5 * 0 + w1, w5 * 0 + w2, w5 * 0 + w3, w5 * 0 + w4
        if WEIGHTED:
            times = tl.load(counts + at, mask=inside, other=0.0)
            w1, w2, w3, w4, w5 = w1 * times, w2 * times, w3 * times, w4 * times, w5 * times
        if KNOWN:
            guided = tl.load(known + side * count + at, mask=inside, other=0) != 0
            w5 = tl.where(guided, w5, w5 + w1 + w2)
            w1, w2 = tl.where(guided, w1, 0.0), tl.where(guided, w2, 0.0)
            w3, w4 = tl.where(guided, w3, 0.0), tl.where(guided, w4, 0.0)
        if ALONE:
            w3, w4 = w3 * 0, w4 * 0
        a, b = _log_sum(log_q, match), _log_sum(log_p, own)
        hit = match - a
        share = _log_sum(log_beta + own - b, log_rest)
        rest_q, rest_p, hit_q = tl.exp(log_q - a), tl.exp(log_p - b), tl.exp(hit)
        soft, hit_p = tl.exp(log_beta + log_p - b), tl.exp(own - b)
        kappa = soft * hit_p
        over = kappa * (log_beta + a - b - mean_p - share + hit)
        under = rest_q * hit_q * (mean_q - a + b - log_beta - hit + share)
        lent = hit_q * kappa * tl.exp(-share)
        f_log_q = (w1 + w5) * rest_q + w2 * (under - rest_q) + w3 - w4
        f_mean_q = w2 * rest_q + w4
        f_log_p = w1 * (over - kappa - soft * rest_p) + w2 * (rest_q * rest_p + lent) - w3 + w4
        f_mean_p = -w1 * soft - w3
        of_match += w1 * (hit_q - tl.exp(share)) - w2 * under - w5 * rest_q
        to = sides + side * 6 * count + at
        tl.store(to, (log_q / LOG_2).to(tl.float32), mask=inside)
        tl.store(to + count, (log_p / LOG_2).to(tl.float32), mask=inside)
        tl.store(to + 2 * count, (f_log_q + f_mean_q * (1 - mean_q)).to(tl.float32), mask=inside)
        tl.store(to + 3 * count, f_mean_q.to(tl.float32), mask=inside)
        tl.store(to + 4 * count, f_mean_p.to(tl.float32), mask=inside)
        tl.store(to + 5 * count, (f_log_p - f_mean_p * (1 + mean_p)).to(tl.float32), mask=inside)
        of_own = w2 * (rest_q * hit_p - lent) - w1 * over
        tl.store(matches + (1 + side) * count + at, of_own.to(tl.float32), mask=inside)
    tl.store(matches + at, of_match.to(tl.float32), mask=inside)


@triton.jit
def _numbers(total, hits, side, at, inside, count):
    """â, Q, b̂, P, z₀ and s₀ of one side, float64. total [2, 8, count]: samples as rows, and as columns."""
    log_q, mean_q = _both(total + side * 4 * count + at, inside, count)
    log_p, mean_p = _both(total + (side * 4 + 2) * count + at, inside, count)
    match = tl.load(hits + at, mask=inside, other=0.0).to(tl.float64)
    own = tl.load(hits + (1 + side) * count + at, mask=inside, other=0.0).to(tl.float64)
    return log_q * LOG_2, mean_q, log_p * LOG_2, mean_p, match, own


@triton.jit
def _both(at, inside, count):
    """A log2-sum and its mean, of two parts."""
    one, other = (
        tl.load(at, mask=inside, other=0.0).to(tl.float64),
        tl.load(at + 8 * count, mask=inside, other=0.0).to(tl.float64),
    )
    mean, other_mean = (
        tl.load(at + count, mask=inside, other=0.0).to(tl.float64),
        tl.load(at + 9 * count, mask=inside, other=0.0).to(tl.float64),
    )
    top = tl.maximum(one, other)
    share, other_share = tl.exp((one - top) * LOG_2), tl.exp((other - top) * LOG_2)
    weight = share + other_share
    return top + tl.log(weight) / LOG_2, (share * mean + other_share * other_mean) / weight


@triton.jit
def _log_sum(one, other):
    return tl.maximum(one, other) + tl.log(1 + tl.exp(-tl.abs(one - other)))
