"""What tests of several folders share: a tiny run, its parts, and open_clip, the peer we compare ourselves with."""

from __future__ import annotations

import os
import random
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import ModuleType

import pytest
import torch
from hypothesis import settings
from judged_features import noisy_features
from open_clip_peer import make_torchvision_importable

from equipoise.config import Loaded, load_run
from equipoise.data.batches import Batches
from equipoise.data.scenes import Scenes
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.models.model import Model
from equipoise.workflows import build_model, run_recipe

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # a shell that runs the tests in the background has them ignore it
    signal.signal(signal.SIGINT, signal.default_int_handler)

if not torch.cuda.is_available():  # Triton asks once, when it is first imported, whether to interpret its kernels
    os.environ.setdefault("TRITON_INTERPRET", "1")

settings.register_profile("repeatable", derandomize=True, deadline=None)  # the same examples in every run
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run files, and the tests of each, in a random order")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """No test may depend on the order of tests: `make test-random` tries another one each time."""
    if (seed := config.getoption("--shuffle")) is not None:
        draw = random.Random(seed)
        places = {path: draw.random() for path in sorted({item.path for item in items})}
        items.sort(key=lambda item: (places[item.path], draw.random()))


TINY_SETTINGS = (
    "data.train_size=64",
    "data.validation_size=16",
    "data.test_size=16",
    "tokens.vocabulary=600",
    "image.width=16",
    "image.layers=1",
    "text.width=16",
    "text.layers=1",
    "space.dim=16",
    "training.steps=2",
    "training.batch_size=16",
    "training.log_every=1",
)

TINY_CODES = ("readout.codes=24", "readout.scale=1.0")


@pytest.fixture(autouse=True)
def same_products() -> Iterator[None]:
    """torch turns oneDNN off for the whole process at the first bf16 product of an ARM processor that has none, and
    float32 rounds differently from then on: tests that come later would depend on it."""
    yield
    torch.backends.mkldnn.enabled = True


@pytest.fixture(scope="session")
def tiny_settings() -> tuple[str, ...]:
    """Overrides that make any run on scenes take a second."""
    return TINY_SETTINGS


@pytest.fixture(scope="session")
def tiny(tiny_settings: tuple[str, ...]) -> Loaded:
    return load_run("demo", tiny_settings)


@pytest.fixture(scope="session")
def scenes(tiny: Loaded) -> Scenes:
    """The training split of the tiny run."""
    return tiny.run.data.build("train")


@pytest.fixture(scope="session")
def tokens(tiny: Loaded, scenes: Scenes) -> CaptionTokenizer:
    captions = (caption for index in range(len(scenes)) for caption in scenes.pair(index).captions)
    return CaptionTokenizer.from_config(tiny.run.tokens, captions)


@pytest.fixture
def model(tiny: Loaded, tokens: CaptionTokenizer) -> Model:
    """An untrained tiny model, the same in every test."""
    torch.manual_seed(0)
    return build_model(tiny.run, tokens)


@pytest.fixture
def coded(tiny_settings: tuple[str, ...], tokens: CaptionTokenizer) -> Model:
    """An untrained tiny model with a code book."""
    torch.manual_seed(0)
    return build_model(load_run("fdt-scenes", (*tiny_settings, *TINY_CODES)).run, tokens).eval()


@pytest.fixture(scope="session")
def fdt_run(tmp_path_factory: pytest.TempPathFactory, tiny_settings: tuple[str, ...]) -> Path:
    """The folder of a finished run with a code book; not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "fdt"
    assert run_recipe("fdt-scenes", (*tiny_settings, *TINY_CODES), folder, command="equipoise train fdt-scenes") == 0
    return folder


@pytest.fixture
def batches(tiny: Loaded, scenes: Scenes, tokens: CaptionTokenizer) -> Batches:
    return Batches(scenes, tokens, tiny.run.preprocess, batch_size=16, seed=0)


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory, tiny_settings: tuple[str, ...]) -> Path:
    """The folder of a run that came to its end; not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    assert run_recipe("demo", tiny_settings, folder, command="equipoise demo") == 0
    return folder


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The words for a run on features of which two pairs in five are wrong."""
    return noisy_features(tmp_path_factory.mktemp("features"))


@pytest.fixture
def full_disk() -> Callable[[int], AbstractContextManager[None]]:
    """`with full_disk(1024):` no file can grow beyond so many bytes, as on a full disk: the write raises OSError."""

    @contextmanager
    def limited(size: int) -> Iterator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limited


@pytest.fixture(scope="session")
def open_clip() -> ModuleType:
    """The module open_clip; tests that ask for it are skipped where it is not installed."""
    make_torchvision_importable()
    return pytest.importorskip("open_clip", reason="open_clip_torch is not installed: parity with it is NOT tested")


@pytest.fixture(scope="session")
def timm() -> ModuleType:
    make_torchvision_importable()
    return pytest.importorskip("timm", reason="timm is not installed: image encoders by its names are NOT tested")


@pytest.fixture(scope="session")
def transformers() -> ModuleType:
    make_torchvision_importable()
    return pytest.importorskip("transformers", reason="transformers is not installed: text encoders are NOT tested")
