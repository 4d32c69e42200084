"""The made-up world: what can be told from a subset is what its closed form says."""

import pytest
import torch

from equipoise.data.modalities import ModalWorlds
from equipoise.data.rng import generator
from equipoise.data.source import HAS_MODALITY
from equipoise.types import UserError

SUBSETS = [("text",), ("audio",), ("video",), ("text", "audio"), ("text", "audio", "video")]


def means(source, names):
    """Means over real steps, one after the other [N, k·w], and the numbers of steps."""
    found = [source.parts[name] for name in names]
    lengths = [part.mask.sum(1) for part in found]
    averaged = [
        (part.values * part.mask[..., None]).sum(1) / count[:, None] for part, count in zip(found, lengths, strict=True)
    ]
    return torch.cat(averaged, 1).double(), lengths


@pytest.mark.slow
@pytest.mark.parametrize("subset", SUBSETS)
def test_least_squares_reaches_the_best_correlation_and_does_not_pass_it(subset: tuple[str, ...]) -> None:
    settings = ModalWorlds.Config(train_size=100_000, test_size=100_000, classes=0, length=0)
    train, test = settings.build("train"), settings.build("test")
    x, y = (torch.cat([source.parts[name].values for name in subset], 1).double() for source in (train, test))
    weights = torch.linalg.lstsq(x, train.labels.double()[:, None]).solution
    reached = torch.corrcoef(torch.stack([(y @ weights)[:, 0], test.labels.double()]))[0, 1]
    assert float(reached) == pytest.approx(float(settings.best_correlation(subset)), abs=0.01)


def test_the_best_accuracy_is_that_of_the_posterior_mean() -> None:
    """Beside it, a judge who knows the world: the mean of y given what was seen, by lengths."""
    settings = ModalWorlds.Config(test_size=40_000)
    test = settings.build("test")
    told = torch.zeros(len(test)).double()
    for name, knows in zip(settings.modalities, settings.knows, strict=True):
        averaged, (steps,) = means(test, (name,))
        frame = torch.randn(16, 16, generator=generator(0, "frame", name)).double()
        told += knows * steps * (averaged @ torch.linalg.qr(frame).Q[:, 0].float().double())
    reached = ((told > 0).long() == test.labels).double().mean()
    assert float(reached) == pytest.approx(settings.best_accuracy(settings.modalities, test), abs=0.006)


def test_knowing_more_is_never_worse() -> None:
    settings = ModalWorlds.Config()
    test = settings.build("test")
    best = {subset: settings.best_accuracy(subset, test) for subset in SUBSETS}
    assert best["text",] > best["audio",] > best["video",] > 0.5
    assert best["text", "audio", "video"] > best["text", "audio"] > best["text",]
    deaf = ModalWorlds.Config(knows=(0.0, 0.6, 0.4))
    assert deaf.best_accuracy(("text",), deaf.build("test")) == pytest.approx(0.5)
    many = ModalWorlds.Config(classes=4)
    assert 0.25 < many.best_accuracy(("text",), many.build("test")) < best["text",]


def test_a_world_is_a_function_of_its_seed_and_its_splits_differ() -> None:
    first, again, other = (ModalWorlds.Config(seed=seed).build("test") for seed in (0, 0, 1))
    assert torch.equal(first.parts["audio"].values, again.parts["audio"].values)
    assert not torch.equal(first.parts["audio"].values, other.parts["audio"].values)
    validation = ModalWorlds.Config(test_size=500).build("validation")
    assert not torch.equal(first.parts["text"].values[:500], validation.parts["text"].values)


def test_training_samples_lack_modalities_but_never_all() -> None:
    settings = ModalWorlds.Config(missing=0.5, train_size=4000)
    side = settings.build("train").batch(range(4000)).side
    has = torch.stack([side[f"{HAS_MODALITY}{name}"] for name in settings.modalities])
    assert has.any(0).all()
    assert 0.4 < has[1].double().mean() < 0.6
    assert settings.build("test").parts["audio"].has.all()


def test_dials_that_do_not_fit_are_told() -> None:
    with pytest.raises(UserError, match=r"data\.knows has 2 numbers for the 3 modalities"):
        ModalWorlds.Config(knows=(1.0, 1.0))
    with pytest.raises(UserError, match="nothing to tell apart"):
        ModalWorlds.Config(classes=1)
    with pytest.raises(UserError, match=r"data\.width"):
        ModalWorlds.Config(width=4)
