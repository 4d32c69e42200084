"""SIMAT's files: the real tables where they are, pictures made here, and one sentence for each mistake."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from equipoise.data.files.simat.images import Cuts, ImageBox, ready_regions, regions_of_pictures
from equipoise.data.files.simat.oracle import read_matrix
from equipoise.data.files.simat.tables import read_simat
from equipoise.data.preprocess import Preprocess
from equipoise.evaluation.simat.score import answer, scored
from equipoise.types import UserError

SHARED = Path(os.environ.get("EQUIPOISE_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))
REAL = SHARED / "annotations" / "simat"
TRIPLETS = "region_id,subj,rel,obj,dataset_id\n61,dog,on,rug,1\n7,cat,on,rug,0\n9,dog,on,bed,2\n30,cat,on,bed,3\n"
TRANSFOS = (
    ",transfo_id,region_id,field,value,target,norm,query_ids,target_ids,dataset_id,norm2,is_test\n"
    "0,5,61,obj,rug,bed,26,0,1,1642,3,True\n"
    "1,6,7,subj,cat,dog,26,2,0,99,1,False\n"
)
CAPTIONS = "A dog on a rug.\nA dog on a bed.\nA cat on a rug.\n"
LINES = (
    "region_id image_id bbox",
    "7 11 2,3,20,12",
    "8 12 0,0,1,1",
    "9 13 0,0,8,8",
    "30 11 4,4,900,900",
    "61 13 1,1,9,9",
)
REGIONS = "".join(f"{line}\n".replace(" ", "\t") for line in LINES)


@pytest.fixture
def tables(tmp_path) -> Path:
    folder = tmp_path / "simat_db"
    folder.mkdir()
    for name, text in (("triplets.csv", TRIPLETS), ("transfos.csv", TRANSFOS), ("captions.txt", CAPTIONS)):
        (folder / name).write_text(text)
    (folder / "retrieval_db.tsv").write_text(REGIONS)
    return folder


def refused(call, *arguments) -> str:
    with pytest.raises(UserError) as caught:
        call(*arguments)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_tables_are_read_by_region_and_not_by_the_dataset_id_of_transfos(tables):
    read = read_simat(tables, "exact")
    assert read.keys == ("7", "61", "9", "30")
    assert [(one.number, one.source, one.caption, one.alike, one.split) for one in read.asked] == [
        (5, 1, 1, 3, "test"),
        (6, 0, 0, 1, "dev"),
    ]
    assert read.oracle.name == "exact triplets"
    wanted = {("9", 1), ("61", 0)}  # dog on bed, dog on rug; the third caption is asked of nobody
    assert {(read.keys[i], c) for i, c in read.oracle.scores.nonzero().tolist()} == wanted


def one_axis_a_word(read):
    """A "model" whose arithmetic is exact."""
    axes = {word: number for number, word in enumerate(dict.fromkeys(word for one in read.triplets for word in one))}
    pictures = torch.zeros(len(read.keys), 3, len(axes))
    for row, triplet in zip(pictures, read.triplets, strict=True):
        row[range(3), [axes[word] for word in triplet]] = 1
    spoken = {word: torch.eye(len(axes))[axes[word]].expand(3, -1).flatten() for word in read.words}
    return pictures.flatten(1), spoken


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason=f"{REAL} is not there: SIMAT's real tables are NOT tested")
def test_the_real_tables():
    read = read_simat(REAL, "exact")
    assert (len(read.asked), len(read.of("dev")), len(read.of("test"))) == (17_996, 8_933, 9_063)
    assert (len(read.keys), len(read.captions), len(read.words)) == (5_859, 645, 130)
    counts = {field: sum(one.field == field for one in read.asked) for field in read.fields}
    assert counts == {"obj": 13_765, "subj": 3_753, "rel": 478}
    often: dict[str, int] = {}
    for one in read.asked:
        often[one.value] = often.get(one.value, 0) + 1
        assert read.oracle.scores[:, one.caption].any()  # some picture is right
        assert not read.oracle.scores[one.source, one.caption]
    assert all(one.alike == often[one.value] for one in read.asked)  # what norm2 is
    relations = [one for one in read.asked if one.field == "rel"]
    answers = answer(*one_axis_a_word(read), relations, read.oracle, [0.0, 1.0])
    assert [scored(relations, some.right)["all"].score for some in answers] == [0, 100]
    first = read.asked[0]
    assert (read.keys[first.source], read.captions[first.caption]) == ("61", "A dog laying on a rug.")
    assert "has no oscar_similarity_matrix.pt, the judge of SIMAT" in refused(read_simat, REAL)


def changed(folder: Path, name: str, old: str, new: str) -> None:
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("transfos.csv", "norm2", "norm3", 'transfos.csv: there is no column "norm2"; the columns are'),
        ("transfos.csv", "5,61,obj", "5,62,obj", 'line 2: the column "region_id" is 62, which triplets.csv does not'),
        ("transfos.csv", "0,1,1642", "0,3,1642", 'line 2: the column "target_ids" is 3; give a number from 0 to 2'),
        ("transfos.csv", "1642,3,", "1642,0,", 'line 2: the column "norm2" is 0; give a number from 1 up'),
        ("transfos.csv", "1642,3,", "1642,3.5,", "line 2: the column \"norm2\" is '3.5'; give a whole number"),
        ("transfos.csv", "False", "no", "line 3: the column \"is_test\" is 'no'; give one of True, False"),
        ("transfos.csv", "subj", "who", "line 3: the column \"field\" is 'who'; give one of subj, rel, obj"),
        ("transfos.csv", "cat,dog", "cow,dog", "line 3: the column \"value\" is 'cow', but the subj of region 7 is"),
        ("transfos.csv", "cat,dog", "cat,", 'line 3: the column "target" is empty'),
        ("transfos.csv", "1,6,7", "1,5,7", 'line 3: the column "transfo_id" is 5, which an earlier line has'),
        ("transfos.csv", ",26,2,0,99,1,False", "", 'line 3: there is no column "target_ids" in this line'),
        ("triplets.csv", "9,dog", "7,dog", 'line 4: the column "region_id" is 7, which an earlier line has'),
        ("triplets.csv", "bed,3", "bed,2", 'line 5: the column "dataset_id" is 2, which an earlier line has'),
        ("triplets.csv", "bed,3", "bed,4", "triplets.csv: no line has the dataset_id 3"),
        ("triplets.csv", "9,dog", "-9,dog", "line 4: the column \"region_id\" is '-9'; give a whole number"),
        ("captions.txt", "A dog on a bed.", " ", "captions.txt, line 2: this is no caption but empty"),
    ],
)
def test_a_bad_table_is_refused_by_file_line_and_column(tables, name, old, new, said):
    changed(tables, name, old, new)
    assert said in refused(read_simat, tables, "exact")


def test_missing_files_are_refused(tables):
    for name in ("captions.txt", "transfos.csv", "triplets.csv"):
        text = (tables / name).read_text()
        (tables / name).unlink()
        assert name in refused(read_simat, tables, "exact")
        (tables / name).write_text(text)
    (tables / "transfos.csv").write_bytes(TRANSFOS.replace("dog", "d\xf6g").encode("latin-1"))
    assert 'line 3: the column "target" is not UTF-8 text' in refused(read_simat, tables, "exact")


@pytest.mark.parametrize("ending", ["pt", "npy", "safetensors"])
def test_a_matrix_judges_in_any_format(tables, ending):
    scores = torch.rand(4, 3, generator=torch.Generator().manual_seed(0))
    path = tables / f"oscar_similarity_matrix.{ending}"
    if ending == "pt":
        torch.save(scores, path)
    elif ending == "npy":
        np.save(path, scores.numpy())
    else:
        save_file({"scores": scores}, path)
    read = read_simat(tables)
    assert torch.equal(read.oracle.scores, scores)
    assert read.oracle.name == path.name
    other = path.rename(tables.parent / f"other.{ending}")
    assert torch.equal(read_simat(tables, str(other)).oracle.scores, scores)


class Nasty:
    def __reduce__(self):
        return (os.mkdir, ("nasty",))


def test_bad_oracles_are_refused_and_no_code_is_run(tables, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tables / "oscar_similarity_matrix.pt"
    path.write_bytes(pickle.dumps(Nasty(), protocol=2))
    assert "cannot be read as a matrix" in refused(read_simat, tables)
    assert not (tmp_path / "nasty").exists()
    torch.save({"a": 1}, path)
    assert "holds no matrix of numbers" in refused(read_simat, tables)
    torch.save(torch.zeros(3, 4), path)
    assert "has the shape [3, 4], but there are 4 pictures and 3 captions" in refused(read_simat, tables)
    torch.save(torch.full((4, 3), torch.nan), path)
    assert "not finite" in refused(read_simat, tables)
    np.save(tmp_path / "objects.npy", np.array([object()]), allow_pickle=True)
    assert "cannot be read as a matrix" in refused(read_matrix, tmp_path / "objects.npy")
    assert "there is no such file" in refused(read_matrix, tmp_path / "gone.npy")
    assert "an oracle is read from .pt, .npy, .safetensors" in refused(read_matrix, tmp_path / "x.csv")


def test_a_caption_of_two_meanings_has_no_exact_judge(tables):
    changed(tables, "transfos.csv", "26,2,0,99", "26,2,1,99")
    assert "wants caption 1 to say dog on rug, but an earlier one" in refused(read_simat, tables, "exact")


@pytest.fixture
def pictures(tmp_path) -> Path:
    """Two pictures under Visual Genome's names, in its two folders."""
    make = np.random.default_rng(0)
    for folder, name in (("VG_100K", "11.png"), ("VG_100K_2", "13.png")):
        (tmp_path / "vg" / folder).mkdir(parents=True)
        pixels = make.integers(0, 256, (30, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "vg" / folder / name)
    return tmp_path / "vg"


def test_regions_are_cut_as_pillow_cuts_them(tables, pictures, tmp_path):
    keys = ("7", "61", "9", "30")
    source = Cuts(regions_of_pictures(tables, pictures, keys), keys, keys)
    boxes = {"7": ("11", (2, 3, 20, 12)), "61": ("13", (1, 1, 9, 9)), "9": ("13", (0, 0, 8, 8)),
             "30": ("11", (4, 4, 40, 30))}  # fmt: skip
    ready = tmp_path / "crops" / "images"
    ready.mkdir(parents=True)
    preprocess = Preprocess(size=16)
    for place, key in enumerate(keys):
        image, box = boxes[key]
        with Image.open(next(pictures.glob(f"*/{image}.png"))) as picture:
            crop = picture.crop(box)
        crop.save(ready / f"{key}.png")
        assert torch.equal(preprocess.for_evaluation(source.images([place], 16)), preprocess.for_evaluation([crop]))
    again = Cuts(ready_regions(tmp_path / "crops", keys), keys, keys)
    assert torch.equal(again.images(range(4), 16), source.images(range(4), 16))
    assert (len(again), again.pair(2).key) == (4, "9")


def test_missing_pictures_and_bad_boxes_are_refused(tables, pictures, tmp_path):
    keys = ("7", "61", "9", "30")
    assert "there is no such folder" in refused(regions_of_pictures, tables, tmp_path / "none", keys)
    assert "has no region 99" in refused(regions_of_pictures, tables, pictures, ("99",))
    (pictures / "13.jpg").write_bytes(b"")
    assert "has picture 13 twice" in refused(regions_of_pictures, tables, pictures, keys)
    (pictures / "13.jpg").unlink()
    for box, said in (("5,5,5,9", "which is empty"), ("1,2,3", 'give "x1,y1,x2,y2"'), ("-1,0,4,4", "in whole pixels")):
        (tables / "retrieval_db.tsv").write_text(REGIONS.replace("0,0,8,8", box))
        assert f'line 4: the column "bbox" is {box!r}'.replace("'", "") in refused(
            regions_of_pictures, tables, pictures, keys
        ).replace("'", "")
        assert said in refused(regions_of_pictures, tables, pictures, keys)
    (tables / "retrieval_db.tsv").write_text(REGIONS.replace("9\t13\t", "9\t../../secret\t"))
    assert "the column \"image_id\" is '../../secret'" in refused(regions_of_pictures, tables, pictures, keys)
    (tables / "retrieval_db.tsv").write_text(REGIONS.replace("0,0,8,8", "50,0,60,8"))
    far = regions_of_pictures(tables, pictures, keys)[2]
    assert "line 4: the box (50, 0, 60, 8) lies outside the 40 x 30 picture" in refused(far.square, 16)
    assert "region 61: " in refused(ready_regions, pictures, ("61",))
    (pictures / "broken.png").write_bytes(b"no picture")
    assert "cannot be read as an image" in refused(ImageBox(pictures / "broken.png", "here").square, 16)
