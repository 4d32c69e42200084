"""The kinds of cases: which sound files are damaged, and what is done with them afterwards.

A case is plain data: {"kind": "model", "edits": [...]} damages a copy of its kind's seed (`edits.py`) and reads it;
further keys say what else: "argv" a command line in the place of the kind's own reading, with {here} for the folder,
"must": "refuse" that it may not go through.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import torch
from draw import TEXTS, VALUES, WORDS, damage
from edits import apply, plain, text_of
from http_cases import ask, draw_request
from server import Case, Silent, Unclear
from setting_cases import a_recipe, a_setting
from setting_cases import keys as setting_keys

import equipoise as eq
from equipoise.cli import main
from equipoise.config import dump, load_run, load_stored
from equipoise.data.decode import read_image
from equipoise.data.encoded_image import encoded
from equipoise.data.features.source import FeatureFiles
from equipoise.data.files.check import check
from equipoise.data.files.image_source import Pictures, decodable
from equipoise.data.files.packed_index import CRC_ENDS
from equipoise.data.files.regions import RegionFiles
from equipoise.data.files.webdataset import Shards
from equipoise.data.keep.apply import kept_source
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.interop import ImportRequest
from equipoise.models.folder import WEIGHTS, step_folders
from equipoise.workflows.load import load_foreign
from equipoise.workflows.subject import find_parts
from equipoise.workflows.train_model import train_run

Action = Callable[[Case, Path], None]
DIGESTS = "digests.json"
WORDS_SHOWN = ["a red fish", "two cats"]


@dataclass(frozen=True)
class Kind:
    seed: str  # a folder of the seeds
    files: tuple[str, ...]  # patterns of those that are damaged
    read: Action
    share: float  # of all cases
    draw: Callable[[Random, Path], Case] | None = None  # in the place of random damage to a file


class Fuzz:
    """Cases over a folder of seeds."""

    def __init__(self, seeds: Path):
        self.seeds = seeds
        self.files = {name: self._files(kind) for name, kind in KINDS.items()}

    def _files(self, kind: Kind) -> list[str]:
        folder = self.seeds / kind.seed
        found = {path.relative_to(folder) for pattern in kind.files for path in folder.glob(pattern) if path.is_file()}
        return sorted(map(str, found))

    def case(self, name: str, number: int, seed: int) -> Case:
        """The case of a number, the same for the same seed."""
        random, kind = Random(f"{seed} {name} {number}"), KINDS[name]
        if kind.draw:
            return {"kind": name, **kind.draw(random, self.seeds)}
        folder = self.seeds / kind.seed
        edits = [damage(random, folder, random.choice(self.files[name])) for _ in range(random.choice([1, 1, 1, 2]))]
        if len({edit["file"] for edit in edits}) < len(edits):  # the second was drawn for the sound file
            edits = edits[:1]
        if random.random() < 0.5:  # as an earlier version wrote it: what lies behind the digests is read then
            edits += [{"file": file, "do": "remove"} for file in self.files[name] if file.endswith(DIGESTS)]
        return {"kind": name, "edits": edits}

    def warm_up(self, place: Path) -> None:
        """Do here what the first case of each kind would otherwise import and set up in every child."""
        setting_keys()
        for name, kind in KINDS.items():
            if name != "resume":  # for threads that take a gradient do not survive a fork
                sound = {
                    "kind": name,
                    "edits": [{"file": file} for file in self.files[name][-1:]],
                    **SOUND.get(name, {}),
                }
                kind.read(sound, self._put(name, place / name))

    def _put(self, name: str, place: Path) -> Path:
        place.mkdir()
        _copied(self.seeds / KINDS[name].seed, place / "here", linked=False)
        os.environ["FUZZ_SEEDS"] = str(self.seeds)
        return place / "here"

    def run(self, case: Case, place: Path) -> None:
        kind = KINDS[case["kind"]]
        here = place / "here"
        _copied(self.seeds / case.get("seed", kind.seed), here, linked=case["kind"] != "resume")
        for edit in case.get("edits", ()):
            apply(here, edit)
        os.environ["FUZZ_SEEDS"] = str(self.seeds)
        if "argv" in case:
            command([str(plain(word)).replace("{here}", str(here)) for word in case["argv"]], place)
        else:
            kind.read(case, here)
        if case.get("must") == "refuse":
            raise Silent("it went through")


def _copied(seed: Path, here: Path, linked: bool) -> None:
    same_disk = seed.stat().st_dev == here.parent.stat().st_dev
    shutil.copytree(seed, here, copy_function=os.link if linked and same_disk else shutil.copy)


def command(argv: list[str], place: Path) -> None:
    """A whole command line; raises Unclear with what it said where it refused."""
    before = os.fstat(2).st_size
    try:
        status = main(argv)
    except SystemExit as stopped:
        status = stopped.code
    sys.stdout.flush()
    sys.stderr.flush()
    if status == 2:
        said = os.pread(2, 1 << 16, before).decode(errors="replace")
        last = said[said.rfind("equipoise: ") :] if "equipoise: " in said else said
        raise Unclear(last.strip() if "Traceback" not in said else said)


def read_recipe(case: Case, here: Path) -> None:
    dump(load_run(here / "r.toml").table)


def read_setting(case: Case, here: Path) -> None:
    dump(load_run("demo", case["set"]).table)


def read_data(case: Case, here: Path) -> None:
    """All records, as `equipoise data check` reads them, and the pictures of some as training does."""
    file = case["edits"][0]["file"]
    data = here / file if Path(file).suffix in (".tar", ".csv", ".tsv", ".parquet") else here / "pairs.csv"
    for settings, patterns in find_parts(str(data)).values():
        records = settings.records(patterns)
        json.dumps(check(records).summary(), ensure_ascii=False).encode()
        some = Pictures(decodable(records), max_bad=1.0)
        if len(some):
            some.images(range(min(2, len(some))), 16)


def read_picture(case: Case, here: Path) -> None:
    path = here / case["edits"][0]["file"]
    if path.is_file():
        encoded(path.read_bytes(), str(path)).square(16)
    read_image(path)


def read_caption(case: Case, here: Path) -> None:
    tokens = CaptionTokenizer.load(here / case["tokens"], context=16)
    tokens([str(plain(case["text"]))], ["the record"])


def read_model(case: Case, here: Path) -> None:
    found = points(eq.load(here))
    whole = os.environ["FUZZ_SEEDS"] + "/model"
    settings = any(edit["file"] in ("config.toml", "preprocess.json") for edit in case["edits"])
    if (
        (here / DIGESTS).exists()
        and not settings
        and not all(torch.equal(one, other) for one, other in zip(found, points(eq.load(whole)), strict=True))
    ):
        raise Silent("other vectors than the sound model's")


def points(model: eq.Model) -> tuple[torch.Tensor, torch.Tensor]:
    size = model.preprocess.size
    with torch.no_grad():
        return model.image_points(torch.linspace(-1, 1, 3 * size * size).view(1, 3, size, size)), model.encode_text(
            WORDS_SHOWN
        )


def read_import(case: Case, here: Path) -> None:
    files = [edit["file"] for edit in case["edits"]]
    weights = next((file for file in files if file in ("w.pt", "w.bin")), "")
    if weights:
        settings = json.loads((here / "open_clip_config.json").read_text())
        (here / "p.json").write_text(json.dumps(settings["preprocess_cfg"]))
        (here / "m.json").write_text(json.dumps(settings["model_cfg"]))
        asked = ImportRequest(str(here / "m.json"), str(here), str(here / "p.json"))
        load_foreign(here / weights, asked)
    else:
        eq.load(here)


def read_resume(case: Case, here: Path) -> None:
    """One step more; whatever was damaged, the model must be that of the undisturbed run."""
    loaded = load_stored(here / "config.toml", ["training.steps=3"])
    train_run(loaded, here)
    made = hashlib.sha256((step_folders(here)[-1] / WEIGHTS).read_bytes()).hexdigest()
    resumed = Path(os.environ["FUZZ_SEEDS"], "resumed")
    settings = any(edit["file"].endswith((".toml", "preprocess.json")) for edit in case["edits"])
    if (here / "checkpoints" / "step-00000002" / DIGESTS).exists() and not settings and made != resumed.read_text():
        raise Silent("another model than the undisturbed run's")


def read_features(case: Case, here: Path) -> None:
    file = case["edits"][0]["file"].replace("a.json", "a.safetensors")
    source = FeatureFiles([here / file])
    images, _ = source.image_features(range(len(source)))
    texts = source.text_features(range(len(source)))[0] if source.text_width is not None else images
    [source.pair(index) for index in range(len(source))]
    if not (images.isfinite().all() and texts.isfinite().all()):
        raise Silent("numbers that are not finite")


def read_regions(case: Case, here: Path) -> None:
    found = RegionFiles(here)
    keys = [f"{number:03}" for number in range(8)]
    features, _ = found.regions(keys)
    for key in keys:
        "".join(found.tags(key))
    if not features.isfinite().all():
        raise Silent("regions that are not finite")


def read_keep(case: Case, here: Path) -> None:
    shard = os.environ["FUZZ_SEEDS"] + "/shards/a.tar"
    source = Shards(train=shard, validation=shard).build("train")
    for rule in ("decision", "weights", "share", "threshold"):
        kept = kept_source(source, here, rule, 0.5)
        [kept.pair(index) for index in range(len(kept))]
        if (weigh := kept.caption_weights) is not None and not np.isfinite(
            np.asarray([weight for index in range(len(kept)) for weight in weigh(index)], dtype=float)
        ).all():
            raise Silent("weights that are not finite")


def read_index(case: Case, here: Path) -> None:
    """A damaged index is made anew. One whose CRC was made to fit may say anything, but may not break what reads it."""
    forged = case.get("forged", False)
    for file in here.glob("**/*.index") if forged else ():
        data = file.read_bytes()
        crc = zlib.crc32(data[CRC_ENDS:])
        file.unlink()  # not written through the link to the seed
        file.write_bytes(data[: CRC_ENDS - 4] + crc.to_bytes(4, "little") + data[CRC_ENDS:])
    shard = os.environ["FUZZ_SEEDS"] + "/shards/a.tar"
    sound, found = (Shards(train=shard, validation=shard, cache=cache).build("train") for cache in ("", str(here)))
    read = [(found.pair(index), found.records.image(index)) for index in range(len(found))]
    if not forged and read != [(sound.pair(index), sound.records.image(index)) for index in range(len(sound))]:
        raise Silent("other records than the shard's")


def draw_index(random: Random, seeds: Path) -> Case:
    folder = seeds / "index"
    file = str(next(folder.glob("**/*.index")).relative_to(folder))
    return {"edits": [damage(random, folder, file)], "forged": random.random() < 0.5}


def draw_setting(random: Random, seeds: Path) -> Case:
    return {"set": [a_setting(random) for _ in range(random.choice([1, 1, 2]))]}


def draw_recipe(random: Random, seeds: Path) -> Case:
    return {"edits": [{"file": "r.toml", **a_recipe(random, (seeds / "recipe" / "r.toml").read_bytes())}]}


def draw_caption(random: Random, seeds: Path) -> Case:
    text = random.choice(TEXTS) + random.choice(["", "", random.choice(TEXTS), chr(random.randrange(0x11000))])
    return {"tokens": random.choice(["bpe", "wordpiece"]), "text": text}


def draw_table(random: Random, seeds: Path) -> Case:
    file = random.choice(["pairs.csv", "pairs.csv", "pairs.tsv", "pairs.parquet"])
    if file.endswith("parquet") or random.random() < 0.4:
        return {"edits": [damage(random, seeds / "table", file)]}
    lines = (seeds / "table" / file).read_bytes().splitlines()
    for _ in range(random.choice([1, 2])):
        row = random.randrange(len(lines))
        words = random.choice(
            [*WORDS, random.choice(TEXTS).encode("utf-8", "surrogatepass"), text_of(random.choice(VALUES)).encode()]
        )
        at = random.randrange(len(lines[row]) + 1)
        lines[row] = lines[row][:at] + words[:2000] + lines[row][at:]
    return {"edits": [{"file": file, "do": "write", "hex": b"\n".join(lines).hex()}]}


SOUND: dict[str, Case] = {
    "set": {"set": ["seed=1"]},
    "caption": {"tokens": "bpe", "text": "a fish"},
    "http": {"method": "GET", "path": "/api/about"},
}
KINDS: dict[str, Kind] = {
    "recipe": Kind("recipe", ("r.toml",), read_recipe, 0.12, draw_recipe),
    "set": Kind("recipe", (), read_setting, 0.15, draw_setting),
    "shards": Kind("shards", ("*.tar",), read_data, 0.10),
    "table": Kind("table", ("pairs.*",), read_data, 0.08, draw_table),
    "picture": Kind("pictures", ("*",), read_picture, 0.15),
    "caption": Kind("tokenizers", (), read_caption, 0.05, draw_caption),
    "model": Kind("model", ("*.json", "*.toml", "*.safetensors"), read_model, 0.08),
    "resume": Kind("run", ("config.toml", "metrics.jsonl", "checkpoints/step-*/*.*"), read_resume, 0.005),
    "open_clip": Kind("open_clip", ("*.json", "*.safetensors"), read_import, 0.06),
    "transformers": Kind("transformers", ("*.json", "*.safetensors"), read_import, 0.06),
    "weights": Kind("weights", ("w.pt", "w.bin"), read_import, 0.06),
    "features": Kind("features", ("*",), read_features, 0.05),
    "regions": Kind("regions", ("0*",), read_regions, 0.02),
    "keep": Kind("keep", ("*",), read_keep, 0.015),
    "index": Kind("index", ("**/*.index",), read_index, 0.02, draw_index),
    "http": Kind("recipe", (), ask, 0.05, draw_request),
}
