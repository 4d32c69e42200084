"""Batches of files: pure functions of seed and position, whoever makes them, whatever is bad in them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from some_files import jpeg, records, write_tar

from equipoise.data.bad_records import (
    FEW,
    BadRecordCount,
    EpochCount,
    Fault,
    Tally,
    tallies_to_json,
    tally_of_part,
)
from equipoise.data.batches import Batches
from equipoise.data.crops import cut_crops
from equipoise.data.files import Mixture, Shards, file_source
from equipoise.data.files.file_source import GLANCE
from equipoise.data.preprocess import Preprocess, crop_boxes, crop_draws, random_crops
from equipoise.data.rng import generator
from equipoise.data.sampling import EpochSampler
from equipoise.data.scenes import Scenes
from equipoise.data.source import Source
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import Batch, UserError

BAD = (3, 4, 17)  # two in a row


@pytest.fixture(scope="module")
def tokens() -> CaptionTokenizer:
    return CaptionTokenizer.train(
        [f"picture {number} told in way {number}" for number in range(60)], CaptionTokenizer.Config(vocabulary=600)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shards of 20 records; `bad.tar` is the same with pictures that cannot be decoded."""
    folder = tmp_path_factory.mktemp("shards")
    write_tar(folder / "a-0.tar", records(20))
    write_tar(folder / "a-1.tar", records(20, start=20))
    damaged = records(40)
    for number in BAD:
        damaged[f"{number:05d}.jpg"] = damaged[f"{number:05d}.jpg"][:400]
    write_tar(folder / "bad.tar", damaged)
    return folder


def source_of(folder: Path, name: str) -> Source:
    if name == "scenes":
        return Scenes.Config(train_size=40, validation_size=1, test_size=1, cache=False).build("train")
    sound = Shards(train="a-{0..1}.tar", validation="a-0.tar", root=str(folder), max_bad=1.0)
    bad = Shards(train="bad.tar", validation="a-0.tar", root=str(folder), max_bad=1.0)
    if name == "mixture":
        return Mixture.Config({"one": sound, "two": bad}, (1.0, 2.0)).build("train")
    return {"sound": sound, "bad": bad}[name].build("train")


def batches(source: Source, tokens: CaptionTokenizer, **options: object) -> Batches:
    preprocess = Preprocess(size=16, crop_scale=(0.4, 1.0))
    return Batches(source, tokens, preprocess, **{"batch_size": 8, "seed": 5} | options)


def assert_same(one: Batch, other: Batch) -> None:
    for name in ("images", "tokens", "mask", "index"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name


SOURCES = ["sound", "bad", "mixture", "scenes"]


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.filterwarnings("ignore:skipped")
def test_the_same_batches_from_any_number_of_workers(name, folder, tokens):
    source = source_of(folder, name)
    expected = [batches(source, tokens).batch(position) for position in range(3, 12)]
    assert expected[0].images.shape == (8, 3, 16, 16)
    assert expected[0].images.dtype == torch.float32
    for workers in (0, 1, 2, 3):
        made = batches(source, tokens, workers=workers)
        for got, wanted in zip(islice(made.starting_at(3), 9), expected, strict=True):
            assert_same(got, wanted)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.filterwarnings("ignore:skipped")
def test_shares_put_together_are_the_whole(name, folder, tokens):
    source = source_of(folder, name)
    for position in (0, 7):
        whole = batches(source, tokens).batch(position)
        parts = [batches(source, tokens, share=(part, 4)).batch(position) for part in range(4)]
        assert torch.equal(torch.cat([part.index for part in parts]), whole.index)
        # pictures that share a matrix product may differ in the last bit from those that do not
        torch.testing.assert_close(torch.cat([part.images for part in parts]), whole.images, rtol=0, atol=1e-5)
        if name != "scenes":
            assert torch.equal(torch.cat([part.images for part in parts]), whole.images)
        for number, part in enumerate(parts):
            rows = slice(2 * number, 2 * number + 2)
            assert [ids[mask].tolist() for ids, mask in zip(part.tokens, part.mask, strict=True)] == [
                ids[mask].tolist() for ids, mask in zip(whole.tokens[rows], whole.mask[rows], strict=True)
            ]


def test_shares_without_sense(folder, tokens):
    source = source_of(folder, "sound")
    with pytest.raises(UserError, match="cannot be shared among 3 processes"):
        batches(source, tokens, share=(0, 3))
    with pytest.raises(UserError, match="not part 2"):
        batches(source, tokens, share=(2, 2))


def test_a_crop_depends_on_its_own_size_and_draws_alone():
    sizes = torch.tensor([[30, 40], [300, 20], [64, 64], [1, 1]])
    draws = crop_draws(4, torch.Generator().manual_seed(3))
    together = crop_boxes(sizes, (0.2, 1.0), (3 / 4, 4 / 3), draws)
    for row in range(4):
        assert torch.equal(
            crop_boxes(sizes[row : row + 1], (0.2, 1.0), (3 / 4, 4 / 3), draws[row : row + 1])[0], together[row]
        )
        height, width = sizes[row].tolist()
        every = random_crops(4, height, width, (0.2, 1.0), (3 / 4, 4 / 3), torch.Generator().manual_seed(3))
        assert torch.equal(every[row], together[row])
    assert (together[:, 2:] > together[:, :2]).all()
    assert (together[:, 2:] <= sizes.flip(1)).all()


def test_the_crop_is_the_one_that_was_drawn(folder, tokens):
    """Batch k by hand: its records, their captions, their boxes, cut by Pillow."""
    source = source_of(folder, "sound")
    made = batches(source, tokens)
    batch = made.batch(6)
    indices = EpochSampler(40, 8, 5).batch(6)
    assert batch.index.tolist() == indices
    draws = torch.rand(8, generator=generator(5, "caption", 6)).tolist()
    chance = crop_draws(8, generator(5, "crop", 6))
    for row, (index, draw) in enumerate(zip(indices, draws, strict=True)):
        captions = source.pair(index).captions
        ids, mask = tokens([captions[int(draw * len(captions))]])
        assert batch.tokens[row][batch.mask[row]].tolist() == ids[0][mask[0]].tolist()
        image = Image.open(io.BytesIO(source.encoded(index).data))
        box = crop_boxes(torch.tensor([[image.height, image.width]]), (0.4, 1.0), (3 / 4, 4 / 3), chance[row : row + 1])
        x0, y0, x1, y1 = box[0].tolist()
        if min(x1 - x0, y1 - y0) < 32:  # else it is read smaller
            by_hand = image.crop((x0, y0, x1, y1)).resize((16, 16), Image.Resampling.BICUBIC)
            pixels = torch.from_numpy(np.array(by_hand)).permute(2, 0, 1)[None]
            off = (made.preprocess.normalised(pixels)[0] - batch.images[row]).abs().max()
            assert off < 1.01 / 255 / min(made.preprocess.std)


def test_the_next_sound_record_stands_in(folder, tokens):
    source = source_of(folder, "bad")

    def whole(places: Sequence[int], sizes: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.zeros_like(sizes), sizes.flip(1)], 1)

    found = cut_crops(source, [2, 3, 4, 17, 39], 8, [whole, whole])
    assert found.indices == [2, 5, 5, 18, 39]
    assert [pair.key for pair in found.pairs] == ["00002", "00005", "00005", "00018", "00039"]
    assert torch.equal(*found.pixels)
    assert [fault.place.rpartition(" ")[2] for fault in found.faults] == ["00003", "00004", "00017"]  # each once
    alone = cut_crops(source, [5, 18], 8, [whole])
    assert torch.equal(found.pixels[0][[1, 3]], alone.pixels[0])
    assert torch.equal(found.pixels[0][1], found.pixels[0][2])


@pytest.mark.parametrize("workers", [0, 2])
def test_bad_records_are_counted_named_once_and_never_seen(workers, folder, tokens):
    made = batches(source_of(folder, "bad"), tokens, workers=workers)
    with pytest.warns(UserWarning, match=r"skipped .*bad\.tar, record 000") as told:
        epochs = list(islice(made.starting_at(0), 10))  # two of five batches
    assert len([warning for warning in told if "skipped" in str(warning.message)]) == 3
    assert not {int(index) for batch in epochs for index in batch.index} & set(BAD)
    assert made.bad.tally == Tally(40, 3)  # of the epoch
    assert len(made.named) == 3


def numbered(count: int, bad: Sequence[int]) -> dict[str, bytes]:
    """Small records with one caption each, some of whose pictures cannot be decoded."""
    picture = jpeg(8, 8)
    files = {f"{n:05d}.jpg": picture[: 300 if n in bad else None] for n in range(count)}
    return files | {f"{n:05d}.txt": b"picture told in way" for n in range(count)}


def train_on(folder: Path, files: dict[str, bytes], max_bad: float = 0.01) -> Source:
    write_tar(folder / "t.tar", files)
    write_tar(folder / "v.tar", records(1))
    return Shards(train="t.tar", validation="v.tar", root=str(folder), max_bad=max_bad).build("train")


@pytest.mark.filterwarnings("ignore:skipped")
def test_bad_records_side_by_side_count_as_often_as_others(tmp_path, tokens):
    """0.8 % of them, of which 1 % are allowed, however they lie."""
    tallies = []
    for where in (range(400, 408), range(0, 1000, 125)):
        source = train_on(tmp_path / str(where.step), numbered(1000, where))
        made = batches(source, tokens, batch_size=40)
        deque(islice(made.starting_at(0), 50), maxlen=0)  # two epochs
        tallies.append(made.bad.tally)
    assert tallies == [Tally(1000, 8)] * 2


def test_a_long_run_of_bad_records_is_passed(tmp_path):
    """A damaged shard: more in a row than are tried one after the other."""
    source = train_on(tmp_path, numbered(300, range(150)), max_bad=0.5)
    found = cut_crops(source, [0, 100, 200], 8, [lambda _, sizes: torch.cat([torch.zeros_like(sizes), sizes], 1)])
    assert found.indices[1:] == [150, 200]
    assert found.indices[0] >= 150
    assert len(found.faults) == 2


@pytest.mark.filterwarnings("ignore:skipped")
def test_never_are_more_records_bad_than_there_are(tmp_path, tokens):
    source = train_on(tmp_path, numbered(12, range(11)), max_bad=1.0)
    made = batches(source, tokens, batch_size=12)
    for _ in islice(made.starting_at(0), 5):
        assert made.bad.tally == Tally(12, 11)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.filterwarnings("ignore:skipped")
def test_too_many_bad_records_end_the_run_at_the_same_batch(workers, tmp_path, tokens, monkeypatch):
    monkeypatch.setattr(file_source, "GLANCE", 0)
    made = batches(train_on(tmp_path, numbered(400, range(0, 400, 2))), tokens, workers=workers)
    with pytest.raises(UserError, match=r"cannot be used, more than the share of 0\.01 .* one of them is .*t\.tar"):
        deque(made.starting_at(0), maxlen=0)
    assert made.bad.tally.bad > FEW
    assert made.bad.tally.seen == 24  # not after an epoch


@pytest.mark.parametrize("bad", [range(0, 400, 2), range(150, 400)])
def test_a_run_on_pictures_most_of_which_are_bad_does_not_begin(bad, tmp_path):
    with pytest.raises(UserError, match=rf"of {GLANCE} records cannot be used, .* one of them is .*t\.tar"):
        train_on(tmp_path, numbered(400, bad))


def test_a_glance_refuses_nothing_that_may_be_allowed(tmp_path):
    """30% bad, 28% allowed: 64 pictures cannot tell."""
    bad = [number for number in range(400) if number % 10 in (1, 4, 7)]
    assert len(train_on(tmp_path, numbered(400, bad), max_bad=0.28)) == 400
    with pytest.raises(UserError, match="1 of 64 records cannot be used"):
        train_on(tmp_path, numbered(400, [0]), max_bad=0.0)


def test_the_share_is_judged_by_all_records_and_by_what_chance_allows():
    whole = BadRecordCount(0.01, 10_000)
    whole.add(120, [Fault("a", "b")] * 100)  # read in order, all at the start
    with pytest.raises(UserError, match="101 of 130 records"):
        whole.add(10, [Fault("a", "b")])
    drawn = EpochCount(0.01, 10_000, 100)
    drawn.add_batch(0, 1000, [Fault("a", "b")] * 20)  # 2 % of a tenth may be chance
    with pytest.raises(UserError, match="120 of 2,000 records"):
        drawn.add_batch(1, 1000, [Fault("a", "b")] * 100)
    drawn.add_batch(200, 1000, [Fault("a", "b")] * 20)  # another epoch
    assert drawn.tally == Tally(1000, 20)


def test_a_good_set_is_hardly_ever_ended_by_chance():
    """0.9 % bad, 1 % allowed: of many orders none ends the run."""
    draw = np.random.default_rng(0)
    bad = np.arange(20_000) < 180
    for _ in range(100):
        count = EpochCount(0.01, 20_000, 200)
        for position, part in enumerate(draw.permutation(bad).reshape(200, 100)):
            count.add_batch(position, 100, [Fault("a", "b")] * int(part.sum()))


def test_what_was_counted_before_a_batch_is_known_while_it_is_the_last_or_the_next():
    count = EpochCount(0.5, 100, 10)
    for position in range(3):
        count.add_batch(position, 10, [Fault("a", "b")] * position)
    assert [count.before(2), count.before(3)] == [Tally(20, 1), Tally(30, 3)]


def test_tallies_of_other_processes():
    stored = tallies_to_json([Tally(30, 3), Tally(30, 2)])
    assert tally_of_part(stored, 1, 2) == Tally(30, 2)
    assert tally_of_part(stored, 0, 1) == Tally(60, 5)
    assert [tally_of_part(stored, part, 4) for part in range(4)] == [Tally(15, 1)] * 3 + [Tally(15, 2)]
    assert tally_of_part([], 0, 1) == Tally()
    for wrong in ("x", [1], [{"seen": 1}], [{"seen": -1, "bad": 0}], [{"seen": 1, "bad": "2"}], 3, None):
        with pytest.raises(ValueError, match="bad_records"):
            tally_of_part(wrong, 0, 1)


def test_none_is_too_many_if_none_are_allowed(folder, tokens):
    made = batches(source_of(folder, "bad"), tokens)
    made.bad.max_bad = 0.0
    with pytest.raises(UserError, match=r"records cannot be used, more than the share of 0 "):
        list(islice(made, 5))


def test_only_bad_records_do_not_loop_for_ever(tmp_path, tokens):
    files = {name: data[:300] if name.endswith("jpg") else data for name, data in records(8).items()}
    write_tar(tmp_path / "a.tar", files)
    write_tar(tmp_path / "v.tar", records(1))
    source = Shards(train="a.tar", validation="v.tar", root=str(tmp_path), max_bad=1.0).build("train")
    with pytest.raises(UserError, match="100 records in a row cannot be read"):
        batches(source, tokens).batch(0)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.filterwarnings("ignore:The caption of")
def test_captions_that_are_cut_are_counted_by_workers_too(workers, folder):
    short = CaptionTokenizer.train(["picture told in way"], CaptionTokenizer.Config(vocabulary=600, context=6))
    made = batches(source_of(folder, "sound"), short, workers=workers).starting_at(0)
    list(islice(made, 5))
    made.close()
    time.sleep(0.3)  # a thread is ahead by now
    assert short.truncated == 40  # of what was used alone: a run that is resumed makes the others again


@pytest.mark.slow
def test_workers_may_be_spawned(folder):
    """Where processes are not forked everything a worker needs is pickled."""
    script = f"""
import multiprocessing, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import json
from itertools import islice
from equipoise.data.batches import Batches
from equipoise.data.crops import cut_crops
from equipoise.data.files import Shards
from equipoise.data.preprocess import Preprocess
from equipoise.data.tokenizer import CaptionTokenizer
if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    source = Shards(train="a-0.tar", validation="a-1.tar", root={str(folder)!r}).build("train")
    tokens = CaptionTokenizer.train(["picture told in way"], CaptionTokenizer.Config(vocabulary=600))
    made = Batches(source, tokens, Preprocess(size=8), batch_size=4, seed=1, workers=1)
    got = [batch.images.sum().item() for batch in islice(made.starting_at(0), 2)]
    print(json.dumps([got, [made.batch(position).images.sum().item() for position in range(2)]]))
"""
    path = folder / "spawned.py"
    path.write_text(script)
    done = subprocess.run(
        [sys.executable, str(path)], check=True, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip
    spawned, here = json.loads(done.stdout)
    assert spawned == here
