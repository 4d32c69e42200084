"""Where claims are tried: recipes with the settings that their rows share.

Two-object scenes at 32 px and the towers of `demo`, which reach neither floor nor ceiling in 1,500 steps of 512. The
captions of a share of the training scenes are another scene's; validation and test data are clean. t learns ten times
as fast as the towers, for Adam moves it by the learning rate a step at most and these runs are short. Numbers are in
float32 on every device.

What is fine-tuned starts from `clip-scenes-gpu` (scenes of up to four things at 64 px) and meets the same world with
its things at any angle, which it was never shown.
"""

from __future__ import annotations

import json
import math

from equipoise.claims.claim import Row, Start

STEPS = ("training.steps=1500", "training.batch_size=512", "training.evaluate_every=1500", "training.warmup_steps=100")
QUIET = ("training.checkpoint_every=0", "training.checkpoint_minutes=0", "training.loggers=[]", "training.log_every=25")
EXACT = ("training.precision=float32",)
CLEAN = ("data.noise.shuffled=0", "data.noise.wrong_attribute=0", "data.noise.near_duplicates=0")
SIZES = ("data.train_size=20000", "data.validation_size=1000", "data.test_size=1000")
FAST_T = ("temperature.speed=10",)
RATES = (("training.learning_rate=1e-3",), ("training.learning_rate=2e-3",), ("training.learning_rate=4e-3",))
SMALL_STEPS = (
    "training.steps=20",
    "training.batch_size=32",
    "training.evaluate_every=20",
    "training.warmup_steps=5",
    "training.log_every=5",
)
SMALL_SIZES = ("data.train_size=300", "data.validation_size=60", "data.test_size=60")

CLIP_START = math.log(1 / 0.07)  # t, where CLIP starts
MATCHED = "matched"  # logits that spread as CLIP's do at its start
DIM = 256
SPHERE = ("space.name=sphere", f"space.dim={DIM}")

# without a space, and with CLIP's
ANY_SPACE = Row(
    "CLIP",
    "demo",
    (*SIZES, *CLEAN, *STEPS, *QUIET, *EXACT, *FAST_T, *RATES[1]),
    small=(*SMALL_STEPS, *SMALL_SIZES),
    sweep=RATES,
)


def started_at(t: float | str) -> str:
    """The setting of where t starts, written alike by all rows, so that they share their cells."""
    return f"temperature.init={t if isinstance(t, str) else format(t, '.4f')}"


SCENES = ANY_SPACE.plus("CLIP", *SPHERE, started_at(CLIP_START))


def noisy(share: float) -> str:
    """The setting by which so many of the training scenes have another's captions."""
    return f"data.noise.shuffled={share:g}"


# A start worth fine-tuning: the recipe as it is, in its own precision. Checkpoints are kept, for a start takes minutes.
TUNED_START = Start(
    "clip-scenes-gpu",
    ("training.checkpoint_every=500", "training.checkpoint_minutes=0", "training.loggers=[]", "training.log_every=25"),
    (*SMALL_STEPS, *SMALL_SIZES, "image.layers=1", "text.layers=1"),
)
UNSEEN = ("texture", "background", "hue")  # shifts that neither the start nor fine-tuning has seen
TUNING = (
    "data.shift=rotation",
    "data.train_size=1000",
    "data.validation_size=1000",
    "data.test_size=1000",
    "training.steps=300",
    "training.evaluate_every=50",
    *EXACT,
    "training.loggers=[]",
    "finetuning.wise=false",
)
TUNING_RATES = (("training.learning_rate=3e-5",), ("training.learning_rate=1e-4",), ("training.learning_rate=3e-4",))
TUNED = Row(
    "FT",
    "clip-scenes-gpu",
    TUNING,
    small=("training.steps=10", "training.evaluate_every=5", "training.warmup_steps=2", "training.batch_size=32",
           *SMALL_SIZES),
    sweep=TUNING_RATES,
    kind="finetune",
    method="ft",
    start=TUNED_START,
)  # fmt: skip
# The start names nearly all upright shapes, which leaves nothing to learn; the shots are of shapes at any angle.
SHOTS = Row(
    "FT",
    "few-shot-scenes",
    ("data.of.train_size=400", "data.of.splits=iid", "data.of.shift=rotation",
     f"data.shifted_by={json.dumps(UNSEEN)}", "training.steps=200",
     "training.evaluate_every=50", *EXACT, "training.loggers=[]",
     "finetuning.wise=false", "objective.name=few_shot_plain", "training.best=acc1"),
    small=("training.steps=10", "training.evaluate_every=5", "training.warmup_steps=2", "training.batch_size=8",
           "data.shots=2", "data.of.validation_size=60", "data.of.test_size=60"),
    sweep=TUNING_RATES,
    kind="finetune",
    method="few-shot",
    start=TUNED_START,
    seeded=("seed", "data.seed", "data.of.seed"),
)  # fmt: skip
