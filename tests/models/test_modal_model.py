"""A model of named modalities: what it reads, what it gives for any subset, and what it refuses."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from equipoise.config import Loaded, dump, load_run
from equipoise.data.modalities.samples import ModalSamples
from equipoise.data.tokenizer import NoTokenizer
from equipoise.kernels import Scoring
from equipoise.models.compatibility import require_compatible
from equipoise.models.folder import save_model
from equipoise.models.modal_model import ModalModel, subset_inputs
from equipoise.types import EVERY_MODALITY, JOINT, SCORES, Batch, UserError
from equipoise.workflows import load
from equipoise.workflows.load import build_model

SMALL = ("data.train_size=64", "data.validation_size=16", "data.test_size=16")


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    return load_run("gmc-world", SMALL)


@pytest.fixture
def samples(loaded: Loaded) -> ModalSamples:
    return loaded.run.data.build("train")  # type: ignore[return-value]


@pytest.fixture
def model(loaded: Loaded, samples: ModalSamples) -> ModalModel:
    torch.manual_seed(0)
    made = build_model(loaded.run, NoTokenizer())
    assert isinstance(made, ModalModel)
    made.measure(samples)
    return made.eval()


def points(model: ModalModel, batch: Batch) -> dict[str, Tensor]:
    with torch.no_grad():
        return model(batch, (EVERY_MODALITY, JOINT, SCORES)).roles()


def test_a_subset_is_its_own_code_the_mean_of_codes_or_the_joint_code(model: ModalModel, samples: ModalSamples) -> None:
    batch = samples.batch(range(8))
    made = points(model, batch)
    assert set(made) == {"text", "audio", "video", JOINT, SCORES}
    assert torch.allclose(made["audio"].norm(dim=1), torch.ones(8), atol=1e-6)
    one = model.encode(subset_inputs(batch, ["audio"]))
    assert torch.allclose(one, made["audio"], atol=1e-6)
    two = model.codes(subset_inputs(batch, ["text", "audio"]))
    assert torch.allclose(two, (made["text"] + made["audio"]) / 2, atol=1e-6)
    every = model.codes(subset_inputs(batch, ["video", "text", "audio"]))
    assert torch.allclose(every, made[JOINT], atol=1e-6)
    assert torch.allclose(model.predict(every), made[SCORES], atol=1e-6)
    projected = model.encode(subset_inputs(batch, ["text", "audio"]))
    assert torch.allclose(projected, torch.nn.functional.normalize(two), atol=1e-6)


def test_zeroed_inputs_are_means_that_are_there_and_absent_ones_are_not(
    model: ModalModel, samples: ModalSamples
) -> None:
    batch = samples.batch(range(8))
    given = subset_inputs(batch, ["text"])
    mean = {name: model.standard[f"of_{name}"].mean.expand(8, 8, 16) for name in ("audio", "video")}
    by_hand = model.codes({**given, **mean})
    assert torch.allclose(model.codes(given, way="zeroed"), by_hand, atol=1e-5)
    nothing = {name: (values, torch.zeros(8, 8, dtype=torch.bool)) for name, values in mean.items()}
    assert torch.allclose(model.codes(given, way="joint"), model.codes({**given, **nothing}), atol=1e-5)
    assert not torch.allclose(model.codes(given, way="joint"), by_hand, atol=1e-3)


def test_a_sample_that_lacks_a_modality_is_the_mean_of_the_others(model: ModalModel, samples: ModalSamples) -> None:
    batch = samples.batch(range(4))
    given = subset_inputs(batch, ["text", "audio"])
    values, mask = given["audio"]
    lacking = mask.clone()
    lacking[2] = False
    made = points(model, batch)
    found = model.codes({"text": given["text"], "audio": (values, lacking)})
    assert torch.allclose(found[2], made["text"][2], atol=1e-6)
    assert torch.allclose(found[1], (made["text"][1] + made["audio"][1]) / 2, atol=1e-6)


def test_padding_and_batch_size_change_nothing(model: ModalModel, samples: ModalSamples) -> None:
    values, mask = subset_inputs(samples.batch(range(9)), ["audio"])["audio"]
    wild = values.where(mask[..., None], torch.tensor(torch.nan))
    whole = model.encode({"audio": (values.numpy(), mask.numpy())})
    assert torch.allclose(model.encode({"audio": (wild, mask)}, batch_size=2), whole, atol=1e-6)


def test_columns_are_standardised_by_the_real_steps_of_training(model: ModalModel, samples: ModalSamples) -> None:
    part = samples.parts["video"]
    real = part.values[part.mask].numpy().astype(np.float64)
    found = model.standard["of_video"]
    assert np.allclose(found.mean.numpy(), real.mean(0), atol=1e-5)
    assert np.allclose(found.scale.numpy(), 1 / real.std(0), rtol=1e-5)


def test_a_constant_column_is_left_at_zero(loaded: Loaded, samples: ModalSamples) -> None:
    samples.parts["text"].values[..., 3] = 7.25
    made = build_model(loaded.run, NoTokenizer())
    assert isinstance(made, ModalModel)
    made.measure(samples)
    values, _ = made.inputs_of(samples.batch(range(8)))["text"]
    assert not values[..., 3].any()
    assert values.isfinite().all()


def test_a_folder_names_its_modalities_and_loads_as_it_was(
    model: ModalModel, samples: ModalSamples, loaded: Loaded, tmp_path: Path
) -> None:
    save_model(model, tmp_path / "model", dump(loaded.table), {})
    card = (tmp_path / "model" / "README.md").read_text()
    assert "text, audio, video" in card
    assert "model.encode(" in card
    again = load(tmp_path / "model")
    given = subset_inputs(samples.batch(range(5)), ["text", "video"])
    assert isinstance(again, ModalModel)
    assert again.modalities == ("text", "audio", "video")
    assert torch.equal(again.encode(given), model.encode(given))


def test_what_it_cannot_read_is_told(model: ModalModel, samples: ModalSamples) -> None:
    given = subset_inputs(samples.batch(range(3)), ["text"])
    nan = torch.full((3, 16), torch.nan)
    nobody = (torch.zeros(3, 16), torch.tensor([True, False, True]))
    wrong = {
        "not smell": {"smell": torch.zeros(3, 16)},
        "not nothing": {},
        r"give an array \[N, 16\]": {"text": torch.zeros(3, 4)},
        "different numbers of samples": {**given, "audio": torch.zeros(2, 16)},
        "not finite": {"text": nan},
        "sample 1 has none of text": {"text": nobody},
        "the mask of text has the shape": {"text": (torch.zeros(3, 16), torch.ones(2, dtype=torch.bool))},
    }
    for told, inputs in wrong.items():
        with pytest.raises(UserError, match=told):
            model.encode(inputs)
    with pytest.raises(UserError, match="way must be one of"):
        model.encode(given, way="other")
    with pytest.raises(UserError, match="reads text, audio, video, and no pictures"):
        model.encode_text("a red fish")
    with pytest.raises(UserError, match="reads text, audio, video, and no pictures"):
        model.encode_image(torch.zeros(1, 3, 8, 8, dtype=torch.uint8))
    with pytest.raises(UserError, match="cannot produce tags"):
        model(samples.batch(range(2)), ("tags",))


def test_arrays_of_any_kind_are_read_or_refused(model: ModalModel) -> None:
    values = np.random.default_rng(0).normal(size=(3, 4, 16))
    expected = model.encode({"text": torch.from_numpy(values).float()})
    backwards = values[::-1][::-1]
    for given in (values, values.astype(">f8"), backwards, np.asfortranarray(values), values.tolist()):
        assert torch.equal(model.encode({"text": given}), expected)
    masked = model.encode({"text": (values, [[True, True, False, True]] * 3)})
    assert torch.equal(masked, model.encode({"text": (values, np.array([[1, 1, 0, 1]] * 3))}))
    assert not torch.allclose(masked, expected, atol=1e-3)
    wrong = {
        "text holds object, which are no numbers": {"text": values.astype(object)},
        "text holds complex128": {"text": values.astype(complex)},
        "text holds torch.complex64": {"text": torch.zeros(3, 16, dtype=torch.complex64)},
        "text is a list of rows of different lengths": {"text": [[1.0] * 16, [1.0] * 15]},
        "text is str": {"text": "a red fish"},
        "text is a tuple of 3": {"text": (values, None, None)},
        "the mask of text holds": {"text": (values, np.array([["yes"] * 4] * 3))},
        "not finite": {"text": np.full((3, 16), 1e300)},
        "have 9 steps": {"text": np.zeros((3, 9, 16))},
        "sample 0 has none of text": {"text": np.zeros((3, 0, 16))},
    }
    for told, inputs in wrong.items():
        with pytest.raises(UserError, match=told):
            model.encode(inputs)
    with pytest.raises(UserError, match="inputs are Tensor; give arrays by the names"):
        model.encode(torch.zeros(3, 16))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ("data.width=12", r"text is 12 wide.*modalities\.inputs\.text\.width"),
        ("data.length=9", r"up to 9 steps.*modalities\.inputs\.text\.length"),
        ("data.classes=3", r"3 classes, but modalities\.outputs is 2"),
        ("data.classes=0", "labels that are numbers"),
        ('data.modalities=["text","audio","image"]', "has no modality video"),
    ],
)
def test_data_of_another_shape_is_refused_before_training(model: ModalModel, changed: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        require_compatible(model, load_run("gmc-world", [*SMALL, changed]).run.data.build("train"))


def test_pictures_and_modalities_are_not_taken_for_each_other(model: ModalModel, samples: ModalSamples) -> None:
    scenes = load_run("demo", ["data.test_size=4"]).run.data.build("test")
    with pytest.raises(UserError, match="holds images and texts"):
        require_compatible(model, scenes)
    with pytest.raises(UserError, match=r"modalities\.name"):
        load_run("demo", ["objective.name=gmc"])
    with pytest.raises(UserError, match=r"tokens\.kind"):
        load_run("gmc-world", ["tokens.kind=wordpiece"])
    with pytest.raises(UserError, match="at least two"):
        load_run("demo", ["modalities.name=named"])


def test_a_gradient_reaches_what_an_objective_reads_and_missing_samples_change_nothing(
    model: ModalModel, samples: ModalSamples, loaded: Loaded
) -> None:
    """A sample without audio has no part in the term of audio: whatever its audio holds, the loss is the same."""
    batch = samples.batch(range(6))
    side = dict(batch.side)
    side["has_modality/audio"] = torch.tensor([True, True, False, True, True, True])
    side["modality_mask/audio"] = side["modality_mask/audio"] & side["has_modality/audio"][:, None]
    losses = []
    for filling in (0.0, 5.0):
        values = side["modality/audio"].clone()
        values[2] = filling
        lacking = replace(batch, side={**side, "modality/audio": values})
        model.zero_grad()
        made = model(lacking, loaded.run.objective.needs)
        loss = loaded.run.objective.loss(made, lacking, Scoring(model.space, model.log_scale))
        loss.total.backward()
        losses.append(loss.total.item())
    assert losses[0] == losses[1]
    assert {"gmc/text", "gmc/audio", "gmc/video", "supervised"} == set(loss.terms)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)
