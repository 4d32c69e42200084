"""A few images of every class: which, with which captions, and what is refused."""

from __future__ import annotations

import pickle
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent / "files"))
from some_files import jpeg

from equipoise.config import Loaded, load_settings
from equipoise.data.batches import Batches
from equipoise.data.few_shot import FewShotData
from equipoise.data.files import Folders
from equipoise.data.scenes import Scenes
from equipoise.data.side_data import fingerprints
from equipoise.data.source import CLASS_PROMPTS, CLASS_PROMPTS_MASK, CLASSES, can_crop, is_judged, is_labelled
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import UserError

OF_SCENES = Scenes.Config(train_size=120, validation_size=20, test_size=20, max_things=2, shapes=("circle", "star"))


def folders(root: Path, **counts: int) -> Folders:
    for split in ("train", "test"):
        for name, count in counts.items():
            (root / split / name).mkdir(parents=True)
            for number in range(count):
                (root / split / name / f"{number}.jpg").write_bytes(jpeg(seed=number))
    return Folders(train="train", validation="test", test="test", root=str(root))


def keys(data: FewShotData, split: str = "train") -> set[str]:
    source = data.build(split)
    return {source.pair(index).key for index in range(len(source))}


def test_every_class_has_as_many_images_and_its_name_as_captions(tmp_path):
    data = FewShotData(folders(tmp_path, cat=5, hot_dog=7), shots=3, templates=("a photo of {}", "the {c}"))
    train, test = data.build("train"), data.build("test")
    pairs = [train.pair(index) for index in range(len(train))]
    assert Counter(pair.label for pair in pairs) == {"cat": 3, "hot dog": 3}
    assert {pair.captions for pair in pairs} == {("a photo of cat", "the cat"), ("a photo of hot dog", "the hot dog")}
    assert (train.class_names, train.templates) == (("cat", "hot dog"), ("a photo of {}", "the {}"))
    assert can_crop(train)
    assert is_labelled(train)
    assert len(test) == 12  # all of them
    assert FewShotData(folders(tmp_path / "more", cat=2, dog=2), shots=0).build("train").templates == (
        "a photo of a {}.",
    )


def test_the_images_follow_from_the_seed_and_fewer_are_the_first_of_more(tmp_path):
    of = folders(tmp_path, cat=30, dog=40)
    sixteen = keys(FewShotData(of, shots=16))
    assert sixteen == keys(FewShotData(of, shots=16))
    assert keys(FewShotData(of, shots=1)) < keys(FewShotData(of, shots=4)) < sixteen
    assert sixteen != keys(FewShotData(of, shots=16, seed=1))
    assert len(keys(FewShotData(of, shots=0))) == 70


def test_scenes_take_part_where_they_show_one_thing():
    data = FewShotData(OF_SCENES, shots=4, templates=("a single {}",), shifted_by=("texture", "hue"))
    train, test = data.build("train"), data.build("test")
    assert len(train) == 8
    assert not is_judged(train)  # its captions are not all that is true
    whole = OF_SCENES.build("test")
    assert len(test) == sum(whole.pair(index).label is not None for index in range(20)) < 20
    assert list(test.shifts) == ["texture", "hue"]
    assert not data.build("validation").shifts
    for shifted in test.shifts.values():
        assert [shifted.pair(index) for index in range(len(test))] == [test.pair(index) for index in range(len(test))]
        assert not torch.equal(shifted.images(range(4), 16), test.images(range(4), 16))


def test_it_travels_to_other_processes(tmp_path):
    data = FewShotData(folders(tmp_path, cat=5, dog=5), shots=2).build("train")
    other = pickle.loads(pickle.dumps(data))
    assert [other.pair(index) for index in range(4)] == [data.pair(index) for index in range(4)]
    assert torch.equal(other.images(range(4), 8), data.images(range(4), 8))


def test_a_batch_holds_the_prompts_of_all_classes_by_one_template_a_step(tiny: Loaded, tokens: CaptionTokenizer):
    source = FewShotData(OF_SCENES, shots=4, templates=("a single {}", "a picture of a single {}")).build("train")
    made = Batches(source, tokens, tiny.run.preprocess, batch_size=3, seed=0, views=(CLASS_PROMPTS,))
    again = Batches(source, tokens, tiny.run.preprocess, batch_size=3, seed=0, views=(CLASS_PROMPTS,), workers=1)
    seen = set()
    for position, other in zip(range(8), again.starting_at(0), strict=False):
        batch = made.batch(position)
        rows = zip(batch.common[CLASS_PROMPTS], batch.common[CLASS_PROMPTS_MASK], strict=True)
        said = [tuple(ids[real].tolist()) for ids, real in rows]
        possible = [
            [tuple(ids[real].tolist()) for ids, real in (tokens(t.replace("{}", name)) for name in source.class_names)]
            for t in source.templates
        ]
        assert said in possible
        seen.add(possible.index(said))
        assert torch.equal(batch.common[CLASSES], fingerprints(source.class_names))
        assert torch.isin(batch.side["label"], batch.common[CLASSES]).all()
        assert all(torch.equal(batch.common[name], other.common[name]) for name in batch.common)
    assert seen == {0, 1}


def test_what_cannot_be_is_said(tmp_path, tiny: Loaded, tokens: CaptionTokenizer, scenes: Scenes):
    with pytest.raises(UserError, match=r'the class "dog" has 3 training images'):
        FewShotData(folders(tmp_path / "a", cat=5, dog=3), shots=4).build("train")
    with pytest.raises(UserError, match=r'the class "dog" has no training images'):
        FewShotData(folders(tmp_path / "b", cat=5, dog=0), shots=2).build("train")
    with pytest.raises(UserError, match=r"data.of has one class, cat, and nothing to tell it from"):
        FewShotData(folders(tmp_path / "c", cat=5), shots=2).build("train")
    with pytest.raises(UserError, match='the template "a photo" has no place for the class'):
        FewShotData(OF_SCENES, templates=("a photo",))
    with pytest.raises(UserError, match="shots is -1"):
        FewShotData(OF_SCENES, shots=-1)
    with pytest.raises(UserError, match="shifted_by names shifts of scenes"):
        FewShotData(folders(tmp_path / "d", cat=5, dog=5), shifted_by=("hue",))
    with pytest.raises(UserError, match='may not be called "shifted"'):
        FewShotData(OF_SCENES, shifts={"shifted": OF_SCENES})
    with pytest.raises(UserError, match="shift"):
        FewShotData(OF_SCENES, shifted_by=("nonsense",))
    two_things = Scenes.Config(train_size=20, min_things=2, max_things=2)
    with pytest.raises(UserError, match=r"data.of: no image of the train data has a class"):
        FewShotData(two_things, shots=1).build("train")
    source = FewShotData(OF_SCENES, shots=4, templates=("a {}" + " very" * 200,)).build("train")
    with pytest.raises(UserError, match=r'The caption of the class "circle" .* tokens'):
        Batches(source, tokens, tiny.run.preprocess, batch_size=3, seed=0, views=(CLASS_PROMPTS,))
    with pytest.raises(UserError, match="names of classes, which the data does not have"):
        Batches(_Plain(scenes), tokens, tiny.run.preprocess, batch_size=3, seed=0, views=(CLASS_PROMPTS,))


class _Plain:
    """Scenes without classes."""

    def __init__(self, scenes: Scenes):
        self.pair, self.images, self.size = scenes.pair, scenes.images, len(scenes)

    def __len__(self) -> int:
        return self.size


def test_a_recipe_says_it():
    settings = {
        "data": {"name": "few_shot", "shots": 2, "of": {"name": "scenes"}, "shifts": {"far": {"name": "folders"}}}
    }
    data = load_settings(settings, "a test").run.data
    assert isinstance(data, FewShotData)
    assert isinstance(data.shifts["far"], Folders)
    with pytest.raises(UserError, match="shuffle exchanges captions"):
        load_settings({**settings, "objective": {"name": "few_shot"}, "shuffle": {"share": 0.5}}, "a test")


def test_validation_may_be_few_too(tmp_path):
    of = folders(tmp_path, cat=30, dog=40)
    data = FewShotData(of, shots=16, validation_shots=4)
    source = data.build("validation")
    assert Counter(source.pair(index).label for index in range(len(source))) == {"cat": 4, "dog": 4}
    assert keys(data, "validation") < keys(FewShotData(of, shots=16, validation_shots=9), "validation")
    assert keys(data, "validation") != keys(FewShotData(of, shots=16, validation_shots=4, seed=1), "validation")
    assert len(keys(data, "test")) == len(keys(FewShotData(of), "validation")) == 70
    assert keys(data) == keys(FewShotData(of, shots=16))  # training is what it was
    with pytest.raises(UserError, match=r'"cat" has 30 validation images, fewer than data.validation_shots = 31'):
        FewShotData(of, shots=1, validation_shots=31).build("validation")
    with pytest.raises(UserError, match="validation_shots is -1"):
        FewShotData(of, validation_shots=-1)


def test_an_iid_split_shows_looks_of_training_again():
    """Few shots of scenes: looks of one split never occur in another, unless splits are iid."""
    few = {"shapes": ("circle", "star"), "colours": ("red", "blue"), "max_things": 1}

    def looks(split: str, **settings: str) -> set[tuple]:
        source = Scenes.Config(train_size=300, validation_size=60, test_size=60, **few, **settings).build(split)
        return {source.scene(index).content() for index in range(len(source))}

    assert not looks("train") & looks("test")
    assert looks("test", splits="iid") <= looks("train", splits="iid") | looks("test", splits="iid")
    assert len(looks("test", splits="iid") & looks("train", splits="iid")) > 0.9 * len(looks("test", splits="iid"))
    data = FewShotData(Scenes.Config(train_size=300, **few, splits="iid"), shots=4)
    assert len(data.build("train")) == 8
