"""Benchmark sets: their words, their layouts beside torchvision's own readers, and what is said of broken ones."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
from open_clip_peer import make_torchvision_importable
from PIL import Image

from equipoise.data.benchmark_sets import SETS, SUITES, SetSpec
from equipoise.data.benchmark_sets.class_folders import read_class_folders
from equipoise.data.benchmark_sets.class_set import ClassSet
from equipoise.data.benchmark_sets.class_words import ClassWords, class_words, known_words
from equipoise.data.benchmark_sets.find import find_place, read_set
from equipoise.data.benchmark_sets.instance_set import InstanceSet, Truth
from equipoise.data.benchmark_sets.torchvision_layouts import TORCHVISION
from equipoise.io.plain_pickle import read_plain_pickle
from equipoise.types import UserError

make_torchvision_importable()
datasets = pytest.importorskip(
    "torchvision.datasets", reason="torchvision is not installed: its layouts are NOT tested"
)


def picture(path: Path, number: int = 0, size: int = 8) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(number).integers(0, 255, (size, size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, quality=95)
    return path


def test_every_class_set_has_words_and_every_suite_is_of_known_sets():
    for name, spec in SETS.items():
        assert spec.needs, name
        if spec.classes:
            words = class_words(spec.classes)
            assert words.names
            assert all(template.count("{}") == 1 for template in words.templates)
    assert {name for suite in SUITES.values() for name in suite} <= set(SETS)
    assert set(TORCHVISION) <= set(SETS)
    assert len(known_words()) >= 24


def test_parts_of_imagenet_are_parts_by_wnid():
    whole, adversarial = class_words("imagenet1k"), class_words("imagenet-a")
    assert (len(whole.names), len(whole.templates), len(adversarial.names)) == (1000, 80, 200)
    assert adversarial.names[0] == whole.names[whole.wnids.index(adversarial.wnids[0])]
    assert whole.names.count("missile") == 2  # a class is its number


def test_class_folders_are_called_by_wnids_numbers_names_or_stand_in_order(tmp_path: Path):
    words = ClassWords(("tench", "gold fish", "shark"), ("a {}.",), ("n00000003", "n00000001", "n00000002"))
    layouts = {
        "wnids": ("n00000001", "n00000002", "n00000003"), "numbers": ("0", "1", "2"),
        "names": ("Gold_Fish", "shark", "tench"), "order": ("aa", "bb", "cc"),
    }  # fmt: skip
    wanted = {"wnids": [1, 2, 0], "numbers": [0, 1, 2], "names": [1, 2, 0], "order": [0, 1, 2]}
    for kind, folders in layouts.items():
        for folder in folders:
            picture(tmp_path / kind / "test" / folder / "a.jpg")
        found = read_class_folders(tmp_path / kind, words)
        assert list(found.labels) == wanted[kind], kind
        assert found.names == words.names


def test_broken_class_folders_are_a_sentence_each(tmp_path: Path):
    words = ClassWords(("cat", "dog"), ("a {}.",))
    for name in ("cat", "dog"):
        (tmp_path / "empty" / name).mkdir(parents=True)
    with pytest.raises(UserError, match="split is empty"):
        read_class_folders(tmp_path / "empty", words)
    picture(tmp_path / "one" / "cat" / "a.jpg")
    (tmp_path / "one" / "dog").mkdir()
    with pytest.raises(UserError, match='no picture of the class "dog"'):
        read_class_folders(tmp_path / "one", words)
    for name in ("cat", "bird", "fish"):
        picture(tmp_path / "strange" / name / "a.jpg")
    with pytest.raises(UserError, match='folder "bird" is none of the 2 classes'):
        read_class_folders(tmp_path / "strange", words)
    for name in ("red_cat", "red cat"):
        picture(tmp_path / "twice" / name / "a.jpg")
    with pytest.raises(UserError, match='class "red cat" is there twice'):
        read_class_folders(tmp_path / "twice", None)
    for name in ("cat", "CAT"):
        picture(tmp_path / "both" / name / "a.jpg")
    with pytest.raises(UserError, match='two folders are the class "cat"'):
        read_class_folders(tmp_path / "both", words)
    with pytest.raises(UserError, match="no folders in it"):
        read_class_folders(tmp_path / "empty" / "cat", words)


def shards(folder: Path, names: str, labels: list[int], templates: str = "a photo of a {c}.") -> Path:
    (folder / "test").mkdir(parents=True)
    (folder / "classnames.txt").write_text(names)
    (folder / "zeroshot_classification_templates.txt").write_text(templates)
    (folder / "test" / "nshards.txt").write_text("1")
    with tarfile.open(folder / "test" / "0.tar", "w") as tar:
        for number, label in enumerate(labels):
            buffer = io.BytesIO()
            Image.fromarray(np.full((8, 8, 3), number % 256, np.uint8)).save(buffer, format="PNG")
            for ending, content in (("png", buffer.getvalue()), ("cls", str(label).encode())):
                entry = tarfile.TarInfo(f"s{number:04d}.{ending}")
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    return folder


def test_clip_benchmarks_shards_are_read_with_the_words_beside_them(tmp_path: Path):
    shards(tmp_path / "wds_vtab-cifar10", "cat\ndog\nfish\n", [2, 0, 1, 1])
    found = read_set("cifar10", SETS["cifar10"], tmp_path)
    assert isinstance(found, ClassSet)
    assert (found.labels, found.names, found.templates) == ((2, 0, 1, 1), ("cat", "dog", "fish"), ("a photo of a {}.",))


def test_broken_shards_are_a_sentence_each(tmp_path: Path):
    shards(tmp_path / "a", "cat\ncat\n", [0, 1])
    with pytest.raises(UserError, match='class "cat" is there twice'):
        read_set("mine", SetSpec("zero-shot", ("a",)), tmp_path)
    shards(tmp_path / "b", "cat\ndog\n", [0, 0])
    with pytest.raises(UserError, match='no picture of the class "dog"'):
        read_set("mine", SetSpec("zero-shot", ("b",)), tmp_path)
    shards(tmp_path / "c", "cat\ndog\n", [0, 7])
    with pytest.raises(UserError, match="every record"):
        read_set("mine", SetSpec("zero-shot", ("c",)), tmp_path)
    with pytest.raises(UserError, match="words of the classes"):
        read_set("mine", SetSpec("zero-shot", ("a",), classes="nothing"), tmp_path)


def test_imagenets_two_missiles_are_two_classes(tmp_path: Path):
    words = class_words("imagenet1k")
    shards(tmp_path / "imagenet1k", "\n".join(words.names), list(range(1000)))
    found = read_set("imagenet1k", SETS["imagenet1k"], tmp_path)
    assert isinstance(found, ClassSet)
    assert found.labels == tuple(range(1000))


def test_a_missing_set_says_what_it_needs_and_where(tmp_path: Path):
    with pytest.raises(UserError, match=r"pets is not in .*oxford-iiit-pet.*pets.*--download"):
        read_set("pets", SETS["pets"], tmp_path)
    assert find_place("pets", SETS["pets"], tmp_path) is None


def same_as(found: ClassSet, theirs, labels=None) -> None:
    """As many pictures, with the same labels and pixels as torchvision's."""
    pairs = [theirs[index] for index in range(len(theirs))]
    assert sorted(found.labels) == sorted(label for _, label in pairs)
    ours = sorted((label, found.source.encoded(n).pixels().tobytes()) for n, label in enumerate(found.labels))
    assert ours == sorted((label, np.asarray(image.convert("RGB")).tobytes()) for image, label in pairs)


def test_cifar_is_read_as_torchvision_reads_it(tmp_path: Path, monkeypatch):
    pixels = np.random.default_rng(0).integers(0, 255, (20, 3072), dtype=np.uint8)
    labels = [number % 10 for number in range(20)]
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in ("test_batch", "data_batch_1"):
        (folder / name).write_bytes(pickle.dumps({"data": pixels, "labels": labels}, protocol=2))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": list(class_words("cifar10").names)}))
    monkeypatch.setattr(datasets.CIFAR10, "_check_integrity", lambda _: True)
    monkeypatch.setattr("torchvision.datasets.cifar.check_integrity", lambda *_: True)
    found = read_set("cifar10", SETS["cifar10"], tmp_path)
    same_as(found, datasets.CIFAR10(str(tmp_path), train=False))
    raw = np.concatenate([np.array(labels, dtype=np.uint8)[:, None], pixels], axis=1)
    (tmp_path / "bin" / "cifar-10-batches-bin").mkdir(parents=True)
    (tmp_path / "bin" / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(raw.tobytes())
    again = read_set("cifar10", SETS["cifar10"], tmp_path / "bin")
    assert again.labels == found.labels
    assert (again.source.encoded(3).pixels() == found.source.encoded(3).pixels()).all()


def test_stl10_and_mnist_are_read_as_torchvision_reads_them(tmp_path: Path, monkeypatch):
    random = np.random.default_rng(0)
    folder = tmp_path / "stl10_binary"
    folder.mkdir()
    random.integers(0, 255, (10, 3, 96, 96), dtype=np.uint8).tofile(folder / "test_X.bin")
    np.arange(1, 11, dtype=np.uint8).tofile(folder / "test_y.bin")
    (folder / "class_names.txt").write_text("\n".join(class_words("stl10").names))
    monkeypatch.setattr(datasets.STL10, "_check_integrity", lambda _: True)
    same_as(read_set("stl10", SETS["stl10"], tmp_path), datasets.STL10(str(tmp_path), split="test"))
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    header = np.array([2051, 10, 28, 28], dtype=">i4").tobytes(), np.array([2049, 10], dtype=">i4").tobytes()
    images, labels = random.integers(0, 255, (10, 28, 28), dtype=np.uint8), np.arange(10, dtype=np.uint8)
    for split in ("t10k", "train"):
        (raw / f"{split}-images-idx3-ubyte").write_bytes(header[0] + images.tobytes())
        (raw / f"{split}-labels-idx1-ubyte").write_bytes(header[1] + labels.tobytes())
    same_as(read_set("mnist", SETS["mnist"], tmp_path), datasets.MNIST(str(tmp_path), train=False))


def test_lists_of_test_pictures_are_read_as_torchvision_reads_them(tmp_path: Path):
    """Pets by numbers, aircraft by names with spaces, textures by folders."""
    pets = tmp_path / "oxford-iiit-pet"
    names = class_words("pets").names
    lines = [f"{name.replace(' ', '_')}_{n} {n + 1} 1 1" for n, name in enumerate(names)]
    for number, line in enumerate(lines):
        picture(pets / "images" / f"{line.split()[0]}.jpg", number)
    (pets / "annotations").mkdir()
    (pets / "annotations" / "test.txt").write_text("\n".join(lines))
    (pets / "annotations" / "trimaps").mkdir()
    theirs = datasets.OxfordIIITPet(str(tmp_path), split="test")
    assert tuple(theirs.classes) == names
    same_as(read_set("pets", SETS["pets"], tmp_path), theirs)

    craft, names = tmp_path / "fgvc-aircraft-2013b" / "data", class_words("fgvc_aircraft").names
    for number in range(len(names)):
        picture(craft / "images" / f"{number:07d}.jpg", number)
    (craft / "variants.txt").write_text("\n".join(names))
    (craft / "images_variant_test.txt").write_text("\n".join(f"{n:07d} {name}" for n, name in enumerate(names)))
    theirs = datasets.FGVCAircraft(str(tmp_path), split="test", annotation_level="variant")
    same_as(read_set("fgvc_aircraft", SETS["fgvc_aircraft"], tmp_path), theirs)

    textures, names = tmp_path / "dtd" / "dtd", class_words("dtd").names
    listed = [f"{name}/{name}_{n}.jpg" for n, name in enumerate(names)]
    for number, line in enumerate(listed):
        picture(textures / "images" / line, number)
    (textures / "labels").mkdir()
    (textures / "labels" / "test1.txt").write_text("\n".join(listed))
    theirs = datasets.DTD(str(tmp_path), split="test")
    assert tuple(theirs.classes) == names
    same_as(read_set("dtd", SETS["dtd"], tmp_path), theirs)


def test_food_flowers_and_cars_are_read_as_torchvision_reads_them(tmp_path: Path):
    savemat = pytest.importorskip("scipy.io").savemat
    food, names = tmp_path / "food-101", [name.replace(" ", "_") for name in class_words("food101").names]
    for number, name in enumerate(names):
        picture(food / "images" / name / f"{number}.jpg", number)
    (food / "meta").mkdir()
    (food / "meta" / "test.txt").write_text("\n".join(f"{name}/{n}" for n, name in enumerate(names)))
    (food / "meta" / "test.json").write_text(json.dumps({name: [f"{name}/{n}"] for n, name in enumerate(names)}))
    same_as(read_set("food101", SETS["food101"], tmp_path), datasets.Food101(str(tmp_path), split="test"))

    flowers, count = tmp_path / "flowers-102", 102
    for number in range(1, count + 1):
        picture(flowers / "jpg" / f"image_{number:05d}.jpg", number)
    savemat(flowers / "setid.mat", {"tstid": np.arange(1, count + 1)[None], "trnid": [[1]], "valid": [[1]]})
    savemat(flowers / "imagelabels.mat", {"labels": np.arange(1, count + 1)[::-1][None].astype(np.uint8)})
    found = read_set("flowers", SETS["flowers"], tmp_path)
    assert found.labels == tuple(range(count))[::-1]

    cars = tmp_path / "stanford_cars"
    rows = np.zeros((196,), dtype=[("fname", "O"), ("class", "O")])
    for number in range(196):
        picture(cars / "cars_test" / f"{number:05d}.jpg", number)
        rows[number] = (f"{number:05d}.jpg", number + 1)
    savemat(cars / "cars_test_annos_withlabels.mat", {"annotations": rows[None]})
    assert read_set("cars", SETS["cars"], tmp_path).labels == tuple(range(196))


class Evil:
    def __reduce__(self):
        return (print, ("this must never be called",))


def test_a_pickle_gives_plain_data_and_calls_nothing(tmp_path: Path, capsys):
    plain = {"a": [1, 2.5, "x"], "b": np.arange(6, dtype=np.int64).reshape(2, 3), "c": {"d": np.float32(0.5)}}
    for protocol in (2, 4, 5):
        file = tmp_path / f"{protocol}.pkl"
        file.write_bytes(pickle.dumps(plain, protocol=protocol))
        found = read_plain_pickle(file)
        assert found["a"] == [1, 2.5, "x"]
        assert found["b"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert found["c"]["d"] == 0.5
    for wicked in (Evil(), [Evil()], {"a": pickle.loads}, np.array([Evil()], dtype=object)):
        file.write_bytes(pickle.dumps(wicked))
        with pytest.raises(UserError, match="no pickle of plain data"):
            read_plain_pickle(file)
    file.write_bytes(b"\x80\x04nonsense")
    with pytest.raises(UserError, match="no pickle of plain data"):
        read_plain_pickle(file)
    assert "never be called" not in capsys.readouterr().out


def revisited_folder(folder: Path, kind: str) -> None:
    for number, name in enumerate(("q0", "d0", "d1", "d2")):
        picture(folder / "jpg" / f"{name}.jpg", number, size=16)
    one = {"bbx": [2.0, 3.0, 10.0, 9.0], "easy": [1], "hard": [0], "junk": []}
    table = {"imlist": ["d0", "d1", "d2"], "qimlist": ["q0"], "gnd": [one]}
    if kind == "json":
        (folder / "gnd_roxford5k.json").write_text(json.dumps(table))
    else:
        table["gnd"] = [{**one, "easy": np.array([1]), "hard": np.array([0]), "junk": np.array([], dtype=np.int64)}]
        (folder / "gnd_roxford5k.pkl").write_bytes(pickle.dumps(table))


@pytest.mark.parametrize("kind", ["json", "pkl"])
def test_revisited_sets_are_read_and_queries_are_cut(kind: str, tmp_path: Path):
    revisited_folder(tmp_path / "roxford5k", kind)
    found = read_set("roxford5k", SETS["roxford5k"], tmp_path)
    assert isinstance(found, InstanceSet)
    assert found.truth == (Truth((1,), (0,), ()),)
    assert (len(found.queries), len(found.database)) == (1, 3)
    assert found.queries.encoded(0).pixels().shape == (6, 8, 3)


@pytest.mark.parametrize(
    ("change", "said"),
    [({"qimlist": []}, "no imlist, qimlist and gnd"), ({"gnd": [{"easy": [9]}]}, "names a picture that is not among"),
     ({"gnd": [{"bbx": [1]}]}, "four numbers")],
)  # fmt: skip
def test_broken_ground_truth_is_one_sentence(change, said, tmp_path: Path):
    revisited_folder(tmp_path / "roxford5k", "json")
    file = tmp_path / "roxford5k" / "gnd_roxford5k.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(UserError, match=said):
        read_set("roxford5k", SETS["roxford5k"], tmp_path)


def test_copies_look_for_their_originals_among_distractors(tmp_path: Path):
    root = tmp_path / "copydays"
    for name in ("original/200000", "original/200100", "strong/200001", "strong/200102", "jpeg/75/200100"):
        picture(root / f"{name}.jpg")
    picture(root / "distractors" / "x.jpg")
    found = read_set("copydays", SETS["copydays"], tmp_path)
    assert isinstance(found, InstanceSet)
    assert [one.easy for one in found.truth] == [(1,), (0,), (1,)]
    assert found.blocks == ("jpeg/75", "strong", "strong")
    assert SETS["copydays"].metric == "strong_mAP"
    assert len(found.database) == 3
    picture(root / "strong" / "999901.jpg")
    with pytest.raises(UserError, match="no original of this copy"):
        read_set("copydays", SETS["copydays"], tmp_path)
