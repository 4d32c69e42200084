"""Benchmark sets of the papers by name: what each needs, and where it must lie. A new one is a line here, and its words
in `classes/` where it has classes."""

from __future__ import annotations

from equipoise.data.benchmark_sets.set_spec import COPIES, INSTANCES, RETRIEVAL, ZERO_SHOT, SetSpec

PER_CLASS = "mean_per_class_recall"
HUB = "clip-benchmark/wds_"
SHARDS = "CLIP_benchmark's shards (test/*.tar, classnames.txt), class folders"
IMAGENET = f"{SHARDS} called by wnids"
KARPATHY = "Karpathy's {} with the pictures, or shards with captions"
ECCV = {name: f"eccv_caption/{name}_image_to_caption.json" for name in ("eccv", "cxc")}
CXC = {kind: f"cxc/{kind}_test.csv" for kind in ("sits", "sis", "sts")}
COCO = ("coco", "mscoco_captions", "wds_mscoco_captions")
COCO_NEEDS = (
    KARPATHY.format("dataset_coco.json and val2014/, or annotations/captions_val2014.json and val2014/,")
    + "; eccv_caption/*.json and cxc/*.csv beside it are used where they are there"
)


def _classes(name: str, hub: str = "", more: str = "", main: str = "", needs: str = SHARDS) -> SetSpec:
    hub = hub or name
    needs = f"{needs}{f', or {more}' if more else ''}"
    return SetSpec(ZERO_SHOT, (name, f"wds_{hub}"), needs, main, classes=name, hub=f"{HUB}{hub}")


def _imagenet(name: str, words: str = "imagenet1k") -> SetSpec:
    shift_of = "" if name == "imagenet1k" else "imagenet1k"
    return SetSpec(
        ZERO_SHOT, (name, f"wds_{name}"), IMAGENET, classes=words, shift_of=shift_of, hub=f"{HUB}{name}"
    )  # fmt: skip


SETS: dict[str, SetSpec] = {
    "coco": SetSpec(RETRIEVAL, COCO, COCO_NEEDS, relevance=ECCV, grades=CXC, hub=f"{HUB}mscoco_captions"),
    "coco-1k": SetSpec(RETRIEVAL, COCO, f"{COCO_NEEDS}; the mean of five folds", folds=5, hub=f"{HUB}mscoco_captions"),
    "flickr30k": SetSpec(
        RETRIEVAL, ("flickr30k", "wds_flickr30k"), KARPATHY.format("dataset_flickr30k.json"), hub=f"{HUB}flickr30k"
    ),
    "flickr8k": SetSpec(
        RETRIEVAL, ("flickr8k", "wds_flickr8k"), KARPATHY.format("dataset_flickr8k.json"), hub=f"{HUB}flickr8k"
    ),
    "imagenet1k": _imagenet("imagenet1k"),
    "imagenetv2": _imagenet("imagenetv2"),
    "imagenet-a": _imagenet("imagenet-a", "imagenet-a"),
    "imagenet-r": _imagenet("imagenet-r", "imagenet-r"),
    "imagenet_sketch": _imagenet("imagenet_sketch"),
    "caltech101": _classes("caltech101", "vtab-caltech101", "101_ObjectCategories", PER_CLASS),
    "cifar10": _classes("cifar10", "vtab-cifar10", "cifar-10-batches-py or -bin"),
    "cifar100": _classes("cifar100", "vtab-cifar100", "cifar-100-python or -binary"),
    "pets": _classes("pets", "vtab-pets", "oxford-iiit-pet", PER_CLASS),
    "food101": _classes("food101", more="food-101"),
    "cars": _classes("cars", more="stanford_cars"),
    "sun397": _classes("sun397", more="SUN397"),
    "dtd": _classes("dtd", "vtab-dtd", "torchvision's dtd/dtd"),
    "fgvc_aircraft": _classes("fgvc_aircraft", more="fgvc-aircraft-2013b", main=PER_CLASS),
    "flowers": _classes("flowers", "vtab-flowers", "flowers-102", PER_CLASS),
    "eurosat": _classes("eurosat", "vtab-eurosat", "eurosat/2750"),
    "stl10": _classes("stl10", more="stl10_binary"),
    "mnist": _classes("mnist", more="MNIST/raw"),
    "gtsrb": _classes("gtsrb"),
    "country211": _classes("country211", more="torchvision's country211/test"),
    "renderedsst2": _classes("renderedsst2", more="rendered-sst2"),
    "resisc45": _classes("resisc45", "vtab-resisc45"),
    "fer2013": _classes("fer2013"),
    "pcam": _classes("pcam", "vtab-pcam"),
    "birdsnap": SetSpec(ZERO_SHOT, ("birdsnap",), "class folders", classes="birdsnap"),
    "ucf101": SetSpec(ZERO_SHOT, ("ucf101",), "class folders of middle frames", classes="ucf101"),
    "roxford5k": SetSpec(INSTANCES, ("roxford5k",), "gnd_roxford5k.pkl (or .json) and jpg/"),
    "rparis6k": SetSpec(INSTANCES, ("rparis6k",), "gnd_rparis6k.pkl (or .json) and jpg/"),
    "copydays": SetSpec(
        COPIES, ("copydays",), "original/, strong/, and perhaps crops/, jpegqual/ and distractors/", main="strong_mAP"
    ),
}

SUITES: dict[str, tuple[str, ...]] = {
    "papers": tuple(name for name in SETS if name not in ("gtsrb", "fer2013", "pcam", "birdsnap", "ucf101", "mnist")),
    "retrieval": tuple(name for name, spec in SETS.items() if spec.task == RETRIEVAL),
    "zero-shot": tuple(name for name, spec in SETS.items() if spec.task == ZERO_SHOT),
    "image-to-image": tuple(name for name, spec in SETS.items() if spec.task in (INSTANCES, COPIES)),
}

__all__ = ["SETS", "SUITES", "SetSpec"]
