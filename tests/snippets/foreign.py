"""What the pages name of other libraries and of benchmarks, small and with random weights, made where it is named."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from open_clip_peer import make_torchvision_importable
from serve.served import keep_folder

WIDTH = 32  # of features, as the house has them
SUITE = '[mine]\ntask = "zero-shot"\ndata = "cifar10"\nclasses = "cifar10"\n'
PUBLISHED = (
    "model,set,accuracy\nresnet50,imagenet1k,0.761\nresnet50,imagenetv2,0.632\nvit,imagenet1k,0.8\nvit,imagenetv2,0.7\n"
)
LETTERS = [*"abcdefghijklmnopqrstuvwxyz"]


def make_what_is_named(folder: Path, text: str) -> None:
    for word, make in MAKERS.items():
        if word in text:
            make(folder)


def _resnet(folder: Path) -> None:
    """A ResNet of transformers with what prepares its pictures."""
    make_torchvision_importable()
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, WIDTH], depths=[1, 1], layer_type="basic")
    ResNetModel(config).save_pretrained(folder / "resnet")
    said = {"image_mean": [0.5] * 3, "image_std": [0.25] * 3, "size": {"shortest_edge": 40}, "crop_size": 32}
    (folder / "resnet" / "preprocessor_config.json").write_text(json.dumps(said), encoding="utf-8")


def _minilm(folder: Path) -> None:
    """A text model of transformers that reads letters."""
    make_torchvision_importable()
    from transformers import BertConfig, BertModel, BertTokenizerFast

    place = folder / "minilm"
    place.mkdir(exist_ok=True)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    (place / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    BertTokenizerFast(vocab=str(place / "vocab.txt"), model_max_length=64).save_pretrained(place)
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(words), **sizes)).save_pretrained(place)


def _cyclip(folder: Path) -> None:
    """CyCLIP's file: OpenAI's layout below `module.`; of 400 MB, so that the house keeps it outside of its copies."""
    make_torchvision_importable()
    import open_clip

    kept = folder / "trained" / "best.pt"
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        peer = open_clip.create_model("RN50-quickgelu")
        torch.save({"epoch": 64, "state_dict": {f"module.{key}": one for key, one in peer.state_dict().items()}}, kept)
        (folder / "best.pt").symlink_to(kept)


def _sets(folder: Path) -> None:
    """CLIP_benchmark's layout: three sets of two classes, and what `--baseline` and `--suite` read."""
    make_torchvision_importable()  # a model of open_clip is among those judged
    shard = folder / "cifar" / "cifar10_test2k" / "test-000.tar"
    for name in ("cifar10", "imagenet1k", "imagenetv2"):
        place = folder / "sets" / name
        (place / "test").mkdir(parents=True, exist_ok=True)
        (place / "test" / "0.tar").write_bytes(shard.read_bytes())
        (place / "classnames.txt").write_text("star\nfish\n", encoding="utf-8")
        (place / "zeroshot_classification_templates.txt").write_text("a photo of {c}\n", encoding="utf-8")
    (folder / "suite.toml").write_text(SUITE, encoding="utf-8")
    (folder / "published.csv").write_text(PUBLISHED, encoding="utf-8")


def _suspects(folder: Path) -> None:
    """What `clean` writes, on the pairs of runs/mine: two steps would teach a judge nothing."""
    if not (folder / "cleaned" / "photos").exists():
        (folder / "cleaned").mkdir(exist_ok=True)
        keep_folder(folder / "runs" / "mine", folder / "cleaned" / "photos")


class Finder(torch.nn.Module):
    """A detector that finds one thing, in the middle."""

    def forward(self, images: list[torch.Tensor]) -> list[dict[str, torch.Tensor]]:
        found: list[dict[str, torch.Tensor]] = []
        for image in images:
            box = torch.tensor([[0.25, 0.25, 0.75, 0.75]]) * image.shape[1]
            told = {"boxes": box, "scores": torch.ones(1), "labels": torch.zeros(1, dtype=torch.long)}
            found.append(told)
        return found


def _detector(folder: Path) -> None:
    (folder / "ssd").mkdir(exist_ok=True)
    torch.jit.script(Finder()).save(str(folder / "ssd" / "detector.pt"))
    (folder / "ssd" / "labels.txt").write_text("person\n", encoding="utf-8")


MAKERS = {
    "ssd/detector.pt": _detector,
    "transformers:resnet": _resnet,
    "transformers:minilm": _minilm,
    "best.pt": _cyclip,
    "--data sets": _sets,
    "--suspects cleaned/photos": _suspects,
}
