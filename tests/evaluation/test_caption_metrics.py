"""Captions' tokens and metrics: what pycocoevalcap gave, loops over the formulas, and itself where it is installed."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from functools import cache
from types import ModuleType

import pytest

from equipoise.evaluation.captions import java_tools
from equipoise.evaluation.captions.bleu import bleu
from equipoise.evaluation.captions.cider import cider_d
from equipoise.evaluation.captions.metrics import caption_metrics
from equipoise.evaluation.captions.ptb import ptb_tokens
from equipoise.evaluation.captions.rouge import rouge_l
from equipoise.types import UserError

# What Stanford's PTBTokenizer 3.4.1 makes of them, less pycocoevalcap's punctuation
TOKENS = [
    (
        "A man can't hold his dog's leash, and the dog doesn't wait.",
        "a man ca n't hold his dog 's leash and the dog does n't wait",
    ),
    (
        '"Two children" are sitting (on a bench) next to Mr. Smith\'s t-shirt stand.',
        "two children are sitting -lrb- on a bench -rrb- next to mr. smith 's t-shirt stand",
    ),
    (
        "I cannot see what they're gonna do; she'll wait at 5 o'clock.",
        "i can not see what they 're gon na do she 'll wait at 5 o'clock",
    ),
    ("The U.S. flag hangs over St. James St. at 3:30 pm", "the u.s. flag hangs over st. james st. at 3:30 pm"),
    (
        "A 3.5 inch disk, 1,000 people, 1/2 pizza and 50% off for $5.99!",
        "a 3.5 inch disk 1,000 people 1/2 pizza and 50 % off for $ 5.99",
    ),
    ("black&white photo of an AT&T van and M&M's and R&B", "black & white photo of an at&t van and m&m 's and r&b"),
    (
        "A close-up of 'half-eaten' food... with salt -- and pepper - on it",
        "a close-up of half-eaten food with salt and pepper on it",
    ),
    (
        "rock 'n' roll in the '90s [sic] {really} and/or later",
        "rock 'n' roll in the '90s -lsb- sic -rsb- -lcb- really -rcb- and/or later",
    ),
    (
        "An email to me@example.com about http://www.example.com/page and www.example.com",
        "an email to me@example.com about http://www.example.com/page and www.example.com",
    ),
    (
        "Wow!! Is it real?! A 4-wheeler, a 4x4 and a 3D film in 2D",
        "wow !! is it real ?! a 4-wheeler a 4x4 and a 3d film in 2d",
    ),
    ("it’s “curly” and don’t you know — a dash", "it 's curly and do n't you know a dash"),
    ("Dr. No vs. Mrs. Jones in Penn. and the etc. of it", "dr. no vs. mrs. jones in penn. and the etc. of it"),
    ("a.m. or p.m. on T.V. with J.R. and no. 5, no.", "a.m. or p.m. on t.v. with j.r. and no. 5 no"),
    ("under_score, a+b = c, #1 and @home & more &amp; better", "under_score a + b = c # 1 and @home & more & better"),
    ("A blue colour, a grey jersey and a café for the naïve", "a blue colour a grey jersey and a café for the naïve"),
    (
        "y'all 'tis 'twas 1950's dogs' tails 12/25/2010 555-1234 10:30pm 5ft",
        "y' all 't is 't was 1950 's dogs tails 12/25/2010 555-1234 10:30 pm 5ft",
    ),
]
REFERENCES = [
    [
        "A man rides a brown horse on the beach.",
        "A person on a horse near the sea.",
        "Someone rides a horse at the shore.",
    ],
    ["Two dogs play with a red ball in the grass.", "Dogs run after a ball."],
    [
        "A red bus, a blue car and a man on a bike.",
        "Traffic: a bus and a car on a street",
        "A city street with a red bus.",
    ],
    ["A plate of food with rice and beans.", "Rice and beans on a plate.", "a plate, rice, beans"],
]
CANDIDATES = [
    "A man on a horse rides on the beach.",
    "Two dogs run in the grass with a ball with a ball.",
    "A red bus on a street",
    "a a a a a a a rice",
]
OF_PYCOCOEVALCAP = {
    "Bleu_1": 0.7142857142653062,
    "Bleu_2": 0.5878963512343347,
    "Bleu_3": 0.40000853368439127,
    "Bleu_4": 4.084322091352573e-05,
    "ROUGE_L": 0.5892103092831678,
    "CIDEr": 1.8761400347650317,
}
Tokens = Sequence[str]


@pytest.fixture
def peer() -> ModuleType:
    return pytest.importorskip("pycocoevalcap", reason="pycocoevalcap is not installed: parity with it is NOT tested")


def tokenized() -> tuple[list[list[list[str]]], list[list[str]]]:
    return [[ptb_tokens(one) for one in several] for several in REFERENCES], [ptb_tokens(one) for one in CANDIDATES]


@pytest.mark.parametrize(("caption", "tokens"), TOKENS)
def test_tokens_are_those_of_stanfords_tokenizer(caption, tokens):
    assert " ".join(ptb_tokens(caption)) == tokens


def test_metrics_are_those_of_pycocoevalcap():
    assert caption_metrics(REFERENCES, CANDIDATES) == pytest.approx(OF_PYCOCOEVALCAP, abs=1e-9)


def grams(tokens: Tokens, n: int) -> list[tuple[str, ...]]:
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def test_bleu_is_its_formula():
    references, candidates = tokenized()
    made = sum(len(one) for one in candidates)
    wanted = 0
    for several, one in zip(references, candidates, strict=True):
        nearest = sorted(several, key=lambda other, one=one: (abs(len(other) - len(one)), len(other)))[0]
        wanted += len(nearest)
    logs = []
    for n in (1, 2, 3):  # of four words in a row there is no match
        hits = total = 0
        for several, one in zip(references, candidates, strict=True):
            own = grams(one, n)
            total += len(own)
            hits += sum(min(own.count(g), max(grams(other, n).count(g) for other in several)) for g in set(own))
        logs.append(math.log(hits / total))
        expected = math.exp(min(0.0, 1 - wanted / made) + sum(logs) / n)
        assert bleu(references, candidates)[n - 1] == pytest.approx(expected, rel=1e-8)


def test_short_captions_are_punished():
    references, candidates = tokenized()
    short = [one[:3] for one in candidates]
    long_enough = [[one[:3] for one in several] for several in references]
    assert bleu(references, short)[0] < bleu(long_enough, short)[0]


def test_rouge_is_its_formula():
    references, candidates = tokenized()
    scores = []
    for several, one in zip(references, candidates, strict=True):

        @cache
        def common(a: tuple[str, ...], b: tuple[str, ...]) -> int:
            if not a or not b:
                return 0
            return max(common(a[1:], b), common(a, b[1:]), (a[0] == b[0]) + common(a[1:], b[1:]))

        lengths = [common(tuple(other), tuple(one)) for other in several]
        p = max(length / len(one) for length in lengths)
        r = max(length / len(other) for length, other in zip(lengths, several, strict=True))
        scores.append((1 + 1.44) * p * r / (r + 1.44 * p) if p else 0.0)
    assert rouge_l(references, candidates) == pytest.approx(sum(scores) / len(scores), abs=1e-12)


def test_cider_is_its_formula():
    references, candidates = tokenized()
    images, total = len(references), 0.0
    for n in (1, 2, 3, 4):
        every = sorted({g for several in references for one in several for g in grams(one, n)}
                       | {g for one in candidates for g in grams(one, n)})  # fmt: skip
        seen = [sum(any(g in grams(one, n) for one in several) for several in references) for g in every]
        rare = [math.log(images / max(1, count)) for count in seen]
        for several, one in zip(references, candidates, strict=True):
            u = [grams(one, n).count(g) * weight for g, weight in zip(every, rare, strict=True)]
            for other in several:
                v = [grams(other, n).count(g) * weight for g, weight in zip(every, rare, strict=True)]
                product = sum(min(a, b) * b for a, b in zip(u, v, strict=True))
                norms = math.sqrt(sum(a * a for a in u) * sum(b * b for b in v))
                gauss = math.exp(-((len(one) - len(other)) ** 2) / 72)
                total += gauss * (product / norms if norms else 0.0) / len(several)
    assert cider_d(references, candidates) == pytest.approx(10 * total / 4 / images, abs=1e-12)


def test_a_caption_of_no_words_scores_nothing_and_breaks_nothing():
    scores = caption_metrics(REFERENCES, ["", "...", "", ""])
    assert all(0 <= value < 1e-6 for value in scores.values())


def test_the_references_themselves_score_best():
    scores = caption_metrics([several[:1] for several in REFERENCES], [several[0] for several in REFERENCES])
    assert scores["Bleu_4"] == pytest.approx(1, abs=1e-6)
    assert scores["ROUGE_L"] == pytest.approx(1)
    assert scores["CIDEr"] == pytest.approx(10)


@pytest.mark.parametrize(
    ("references", "candidates", "fragment"),
    [
        ([["a"]], ["a", "b"], "one caption per image"),
        ([], [], "one caption per image"),
        (["a dog", "a cat"], ["a", "b"], "image 0 has no list of references"),
        ([["a"], []], ["a", "b"], "image 1 has no list of references"),
        ([["a"], [3]], ["a", "b"], "image 1: captions and references must be texts"),
        ([["a dog"]], ["a dog"], "at least two images"),
    ],
)
def test_refused_in_a_sentence(references, candidates, fragment):
    with pytest.raises(UserError, match=fragment):
        caption_metrics(references, candidates)


def test_meteor_and_spice_need_java_and_say_so(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    for metric in (java_tools.meteor, java_tools.spice):
        with pytest.raises(UserError, match="no java on the path"):
            metric(REFERENCES, CANDIDATES)


@pytest.mark.parametrize("broken", ["as they are", "one is empty", "one is three times as long"])
def test_pycocoevalcap_itself_agrees(peer, broken):
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    references, candidates = tokenized()
    candidates[1] = {"one is empty": [], "one is three times as long": candidates[1] * 3}.get(broken, candidates[1])
    wanted = {n: [" ".join(one) for one in several] for n, several in enumerate(references)}
    made = {n: [" ".join(one)] for n, one in enumerate(candidates)}
    assert bleu(references, candidates) == pytest.approx(Bleu(4).compute_score(wanted, made, verbose=0)[0], abs=1e-12)
    assert rouge_l(references, candidates) == pytest.approx(Rouge().compute_score(wanted, made)[0], abs=1e-12)
    assert cider_d(references, candidates) == pytest.approx(Cider().compute_score(wanted, made)[0], abs=1e-12)


@pytest.mark.slow
def test_the_real_programs_run(peer):
    """Java: the tokenizer that the table above is of, and METEOR."""
    if not shutil.which("java"):
        pytest.skip("there is no java on the path: PTBTokenizer and METEOR are NOT tested")
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    found = PTBTokenizer().tokenize({n: [{"caption": caption}] for n, (caption, _) in enumerate(TOKENS)})
    assert [one for several in found.values() for one in several] == [tokens for _, tokens in TOKENS]
    best = java_tools.meteor([several[:1] for several in REFERENCES], [several[0] for several in REFERENCES])
    assert best == pytest.approx(1.0)
    assert 0 < java_tools.meteor(REFERENCES, CANDIDATES) < 1
