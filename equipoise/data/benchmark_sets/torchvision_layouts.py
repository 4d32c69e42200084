"""Class sets as torchvision leaves them on disk: which pictures are of the test, and the class of each.

A layout is a folder below ROOT or ROOT/NAME and a function that reads it. Orders of pictures and numbers of classes are
torchvision's; names are those of `class_words.py`, whose order is the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.data.benchmark_sets.class_folders import read_class_folders
from equipoise.data.benchmark_sets.class_set import ClassSet, class_set, listed_set
from equipoise.data.benchmark_sets.class_words import ClassWords
from equipoise.data.benchmark_sets.packed_pictures import (
    Packed,
    read_cifar_binary,
    read_cifar_pickle,
    read_mnist,
    read_stl10,
)
from equipoise.types import UserError

Files = list[tuple[Path, int]]


@dataclass(frozen=True)
class Layout:
    folder: str  # below ROOT or ROOT/NAME
    needs: str  # what must be in it, for it to be this layout
    read: Callable[[Path, ClassWords], ClassSet]


def _listed(read: Callable[[Path, ClassWords], Files]) -> Callable[[Path, ClassWords], ClassSet]:
    return lambda folder, words: listed_set(read(folder, words), words.names, words.templates, str(folder))


def _packed(read: Callable[[Path], Packed], *parts: str) -> Callable[[Path, ClassWords], ClassSet]:
    def build(folder: Path, words: ClassWords) -> ClassSet:
        records, labels = read(folder.joinpath(*parts))
        if wrong := next((label for label in labels if not 0 <= label < len(words.names)), None):
            raise UserError(f"{folder}: a picture has the class {wrong}, but there are {len(words.names)} classes")
        return class_set(records, labels, words.names, words.templates, str(folder))

    return build


def _food101(folder: Path, words: ClassWords) -> Files:
    listed = _lines(folder / "meta" / "test.txt")
    order = sorted({line.partition("/")[0] for line in listed})
    return [(folder / "images" / f"{line}.jpg", _place(order, line.partition("/")[0], words)) for line in listed]


def _dtd(folder: Path, words: ClassWords) -> Files:
    listed = _lines(folder / "labels" / "test1.txt")
    order = sorted({line.partition("/")[0] for line in listed})
    return [(folder / "images" / line, _place(order, line.partition("/")[0], words)) for line in listed]


def _sun397(folder: Path, words: ClassWords) -> Files:
    order = [line[3:] for line in _lines(folder / "ClassName.txt")]
    pictures = [path for path in folder.rglob("sun_*.jpg")]
    return [(path, _place(order, "/".join(path.relative_to(folder).parts[1:-1]), words)) for path in sorted(pictures)]


def _pets(folder: Path, words: ClassWords) -> Files:
    rows = [line.split() for line in _lines(folder / "annotations" / "test.txt") if not line.startswith("#")]
    return [(folder / "images" / f"{row[0]}.jpg", _number(row[1], folder, words) - 1) for row in rows]


def _aircraft(folder: Path, words: ClassWords) -> Files:
    order = _lines(folder / "data" / "variants.txt")
    rows = [line.split(" ", 1) for line in _lines(folder / "data" / "images_variant_test.txt")]
    return [(folder / "data" / "images" / f"{row[0]}.jpg", _place(order, row[-1], words)) for row in rows]


def _flowers(folder: Path, words: ClassWords) -> Files:
    chosen = _matlab(folder / "setid.mat")["tstid"].ravel().tolist()
    labels = _matlab(folder / "imagelabels.mat")["labels"].ravel().tolist()
    return [(folder / "jpg" / f"image_{one:05d}.jpg", _number(labels[one - 1], folder, words) - 1) for one in chosen]


def _cars(folder: Path, words: ClassWords) -> Files:
    rows = _matlab(folder / "cars_test_annos_withlabels.mat", squeeze_me=True)["annotations"]
    return [
        (folder / "cars_test" / str(row["fname"]), _number(row["class"], folder, words) - 1) for row in rows.reshape(-1)
    ]


def _folders(folder: Path, words: ClassWords) -> ClassSet:
    return read_class_folders(folder, words)


def _caltech101(folder: Path, words: ClassWords) -> ClassSet:
    """All 102 folders: the background is a class of CLIP's and VTAB's, though torchvision leaves it out."""
    place = folder / "101_ObjectCategories"
    if not (place / "BACKGROUND_Google").is_dir():
        raise UserError(
            f"{place}: the folder BACKGROUND_Google is missing, which is one of the 102 classes; unpack all"
        )
    return read_class_folders(place, words)


TORCHVISION: dict[str, tuple[Layout, ...]] = {
    "food101": (Layout("food-101", "meta/test.txt", _listed(_food101)),),
    "dtd": (Layout("dtd/dtd", "labels/test1.txt", _listed(_dtd)), Layout("dtd", "labels/test1.txt", _listed(_dtd))),
    "sun397": (Layout("SUN397", "ClassName.txt", _listed(_sun397)),),
    "pets": (Layout("oxford-iiit-pet", "annotations/test.txt", _listed(_pets)),),
    "fgvc_aircraft": (Layout("fgvc-aircraft-2013b", "data/images_variant_test.txt", _listed(_aircraft)),),
    "flowers": (Layout("flowers-102", "setid.mat", _listed(_flowers)),),
    "cars": (Layout("stanford_cars", "cars_test_annos_withlabels.mat", _listed(_cars)),),
    "caltech101": (Layout("caltech101", "101_ObjectCategories", _caltech101),),
    "eurosat": (Layout("eurosat", "2750", lambda f, w: _folders(f / "2750", w)),),
    "country211": (Layout("country211", "test", _folders),),
    "renderedsst2": (Layout("rendered-sst2", "test", _folders),),
    "cifar10": (
        Layout("cifar-10-batches-py", "test_batch", _packed(read_cifar_pickle, "test_batch")),
        Layout("cifar-10-batches-bin", "test_batch.bin", _packed(read_cifar_binary, "test_batch.bin")),
    ),
    "cifar100": (
        Layout("cifar-100-python", "test", _packed(lambda file: read_cifar_pickle(file, fine=True), "test")),
        Layout("cifar-100-binary", "test.bin", _packed(lambda file: read_cifar_binary(file, fine=True), "test.bin")),
    ),
    "stl10": (Layout("stl10_binary", "test_X.bin", _packed(read_stl10)),),
    "mnist": (Layout("MNIST", "raw/t10k-images-idx3-ubyte", _packed(read_mnist, "raw")),),
}


def _lines(file: Path) -> list[str]:
    try:
        return [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read ({error}); it comes with the data") from None


def _place(order: Sequence[str], name: str, words: ClassWords) -> int:
    if len(order) != len(words.names):
        raise UserError(f'the list with "{name}" has {len(order)} classes, not {len(words.names)}; complete the data')
    if name not in order:
        raise UserError(f'"{name}" is not in the list of its {len(order)} classes; fetch the data again')
    return order.index(name)


def _number(value: Any, folder: Path, words: ClassWords) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = 0
    if not 1 <= number <= len(words.names):
        raise UserError(f"{folder}: a picture has the class {json.dumps(str(value))}, not 1 to {len(words.names)}")
    return number


def _matlab(file: Path, **more: Any) -> dict[str, Any]:
    try:
        from scipy.io import loadmat
    except ImportError:
        raise UserError(f"{file} needs scipy to be read; pip install 'equipoise[probe]'") from None
    try:
        content: dict[str, Any] = loadmat(str(file), **more)
        return content
    except Exception as error:  # of a damaged file
        raise UserError(f"{file} cannot be read ({error}); fetch it again") from None
