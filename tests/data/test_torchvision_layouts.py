"""Sets without a list of test pictures, in small folders as torchvision leaves them: its own readers are the oracle."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from open_clip_peer import make_torchvision_importable
from PIL import Image

from equipoise.data.benchmark_sets import SETS
from equipoise.data.benchmark_sets.class_set import ClassSet
from equipoise.data.benchmark_sets.class_words import class_words
from equipoise.data.benchmark_sets.find import find_place, read_set
from equipoise.types import UserError

make_torchvision_importable()
datasets = pytest.importorskip(
    "torchvision.datasets", reason="torchvision is not installed: its layouts are NOT tested"
)
EUROSAT = "AnnualCrop Forest HerbaceousVegetation Highway Industrial Pasture PermanentCrop Residential River SeaLake"

FOLDERS = (  # as the authors call the folders; capitals come first
    "BACKGROUND_Google Faces Faces_easy Leopards Motorbikes accordion airplanes anchor ant barrel bass beaver "
    "binocular bonsai brain brontosaurus buddha butterfly camera cannon car_side ceiling_fan cellphone chair "
    "chandelier cougar_body cougar_face crab crayfish crocodile crocodile_head cup dalmatian dollar_bill dolphin "
    "dragonfly electric_guitar elephant emu euphonium ewer ferry flamingo flamingo_head garfield gerenuk "
    "gramophone grand_piano hawksbill headphone hedgehog helicopter ibis inline_skate joshua_tree kangaroo ketch "
    "lamp laptop llama lobster lotus mandolin mayfly menorah metronome minaret nautilus octopus okapi pagoda "
    "panda pigeon pizza platypus pyramid revolver rhino rooster saxophone schooner scissors scorpion sea_horse "
    "snoopy soccer_ball stapler starfish stegosaurus stop_sign strawberry sunflower tick trilobite umbrella watch "
    "water_lilly wheelchair wild_cat windsor_chair wrench yin_yang"
)
CALTECH = FOLDERS.split()


def write(path: Path, number: int) -> None:
    """A picture that no other number has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(number).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, quality=95)


def read(name: str, root: Path) -> ClassSet:
    assert find_place(name, SETS[name], root) is not None
    found = read_set(name, SETS[name], root)
    assert isinstance(found, ClassSet)
    return found


def pictures(found: ClassSet) -> list[tuple[int, bytes]]:
    return sorted((label, found.source.encoded(n).pixels().tobytes()) for n, label in enumerate(found.labels))


def theirs(dataset, shift: int = 0) -> list[tuple[int, bytes]]:
    pairs = (dataset[number] for number in range(len(dataset)))
    return sorted((label + shift, np.asarray(image.convert("RGB")).tobytes()) for image, label in pairs)


def test_sun397_goes_by_its_list_of_classes(tmp_path: Path) -> None:
    """Some classes are two folders deep: /a/apse/indoor."""
    root, names = tmp_path / "SUN397", class_words("sun397").names
    deep = {name for name in names if name.endswith((" indoor", " outdoor"))}
    assert len(deep) > 30
    folders = []
    for name in names:
        first, _, last = name.rpartition(" ")
        words = (first.replace(" ", "_"), last) if name in deep else (name.replace(" ", "_"),)
        folders.append("/".join((name[0], *words)))
    for number, folder in enumerate(folders):
        write(root / folder / f"sun_{number:016d}.jpg", number)
    (root / "ClassName.txt").write_text("".join(f"/{folder}\n" for folder in folders))
    peer = datasets.SUN397(str(tmp_path))
    found = read("sun397", tmp_path)
    assert [one.replace("_", " ").replace("/", " ") for one in peer.classes] == list(found.names)
    assert pictures(found) == theirs(peer)


def test_eurosats_ten_folders_stand_for_the_classes_in_their_order(tmp_path: Path) -> None:
    folders = EUROSAT.split()
    for number, folder in enumerate(folders):
        for other in range(2):
            write(tmp_path / "eurosat" / "2750" / folder / f"{folder}_{other + 1}.jpg", 2 * number + other)
    found = read("eurosat", tmp_path)
    assert pictures(found) == theirs(datasets.EuroSAT(str(tmp_path)))
    for word, folder in (("annual crop", "AnnualCrop"), ("sea", "SeaLake"), ("shrub", "HerbaceousVegetation")):
        assert word in found.names[folders.index(folder)]


def write_caltech(root: Path, folders: list[str]) -> None:
    for number, folder in enumerate(folders):
        write(root / "caltech101" / "101_ObjectCategories" / folder / "image_0001.jpg", number)
    (root / "caltech101" / "Annotations").mkdir()


def test_caltech101_keeps_the_background_that_clip_has_as_a_class(tmp_path: Path) -> None:
    """torchvision leaves it out, so that its numbers are one lower; CLIP_benchmark and VTAB keep it."""
    pytest.importorskip("scipy", reason="torchvision's Caltech101 needs scipy")
    write_caltech(tmp_path, CALTECH)
    found, peer = read("caltech101", tmp_path), datasets.Caltech101(str(tmp_path))
    assert peer.categories == CALTECH[1:]
    assert pictures(found)[0][0] == 0
    assert pictures(found)[1:] == theirs(peer, shift=1)
    assert found.names[:5] == ("background", "off-center face", "centered face", "leopard", "motorbike")
    other = {"airplanes": "airplane", "car_side": "car", "cougar_body": "cougar", "garfield": "garfield"}
    for folder, name in zip(CALTECH[5:], found.names[5:], strict=True):
        first = other.get(folder, folder.partition("_")[0])
        assert first in name.casefold().replace("-", " "), (folder, name)


def test_caltech101_without_its_background_says_so(tmp_path: Path) -> None:
    write_caltech(tmp_path, CALTECH[1:])
    with pytest.raises(UserError, match="BACKGROUND_Google"):
        read("caltech101", tmp_path)


def test_country211_is_read_from_its_test_folder_by_codes_of_countries(tmp_path: Path) -> None:
    names = class_words("country211").names
    codes = sorted({f"{a}{b}" for a in "ABCDEFGHIJKLMNOPQ" for b in "ACEGIKMOQSUWY"})[: len(names)]
    for split in ("train", "valid", "test"):
        for number, code in enumerate(codes):
            write(tmp_path / "country211" / split / code / f"{number}.jpg", number if split == "test" else 0)
    found = read("country211", tmp_path)
    assert pictures(found) == theirs(datasets.Country211(str(tmp_path), split="test"))
    assert found.names[:3] == ("Andorra", "United Arab Emirates", "Afghanistan")  # AD, AE, AF


def test_rendered_sst2_is_read_from_its_test_folder(tmp_path: Path) -> None:
    kinds = ("train/negative", "train/positive", "valid/negative", "valid/positive", "test/negative", "test/positive")
    for number, kind in enumerate(kinds):
        write(tmp_path / "rendered-sst2" / kind / f"{number}.png", number)
    found = read("renderedsst2", tmp_path)
    peer = datasets.RenderedSST2(str(tmp_path), split="test")
    assert pictures(found) == theirs(peer)
    assert tuple(peer.classes) == found.names


def test_cifar100_has_fine_labels_in_both_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (100, 3072), dtype=np.uint8)
    fine, names = list(range(100))[::-1], class_words("cifar100").names
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    table = {"data": pixels, "fine_labels": fine, "coarse_labels": [label // 5 for label in fine]}
    for name in ("test", "train"):
        (folder / name).write_bytes(pickle.dumps(table, protocol=2))
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": [name.replace(" ", "_") for name in names]}))
    monkeypatch.setattr(datasets.CIFAR100, "_check_integrity", lambda _: True)
    monkeypatch.setattr("torchvision.datasets.cifar.check_integrity", lambda *_: True)
    peer = datasets.CIFAR100(str(tmp_path), train=False)
    found = read("cifar100", tmp_path)
    assert pictures(found) == theirs(peer)
    assert [name.replace("_", " ") for name in peer.classes] == list(found.names)
    binary = tmp_path / "other" / "cifar-100-binary"
    binary.mkdir(parents=True)
    labels = np.array([table["coarse_labels"], fine], dtype=np.uint8).T
    (binary / "test.bin").write_bytes(np.concatenate([labels, pixels], axis=1).tobytes())
    assert pictures(read("cifar100", tmp_path / "other")) == pictures(found)
