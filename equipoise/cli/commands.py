"""Every command, in the order of `equipoise --help`: the parser, the tests and docs/commands.md follow from this table.

A command is a line here, a file of words in `cli/` and a driver of the same name in `workflows/`. The file of words has

    EXAMPLE               what may be typed behind the command's name
    def add(parser)       adds its arguments; those that several commands share are in `arguments.py`
    def run(options)      calls the driver, which it imports only now, and returns the exit status or None for 0
"""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": (
        "equipoise.cli.demo",
        "find the wrong ones among noisy pairs, train with and without them, and report what that bought",
    ),
    "init": ("equipoise.cli.init", "write a recipe for files of your own, to read, change and train with"),
    "train": ("equipoise.cli.train", "train a model from a recipe, or on files"),
    "finetune": (
        "equipoise.cli.finetune",
        "train a model that is there already on other data, and keep it only where it became better",
    ),
    "sweep": (
        "equipoise.cli.sweep",
        "train with every combination of some settings, and choose the best on validation",
    ),
    "autotune": (
        "equipoise.cli.autotune",
        "try micro-batches, precision, compiling and loaders on this machine, and write the fastest as a recipe",
    ),
    "eval": ("equipoise.cli.eval", "evaluate a model folder"),
    "zeroshot": ("equipoise.cli.zeroshot", "sort pictures into classes by the classes' names alone"),
    "caption": ("equipoise.cli.caption", "write captions of pictures with a CoCa, as a table and as JSON lines"),
    "serve": (
        "equipoise.cli.serve",
        "a page to search a model's pictures, name them, see why, compare models and judge suspicious captions",
    ),
    "benchmark": (
        "equipoise.cli.benchmark",
        "any models on the sets of the papers, side by side: retrieval, zero-shot, image to image",
    ),
    "compare": ("equipoise.cli.compare", "runs side by side: settings that differ, numbers, curves"),
    "embed": ("equipoise.cli.embed", "write the features of data, for training in seconds"),
    "index build": (
        "equipoise.cli.index.build",
        "make an index of data, to search pictures or texts with; `equipoise index MODEL DATA` is short for it",
    ),
    "index add": ("equipoise.cli.index.add", "add data to an index, or replace records that are in it"),
    "index delete": ("equipoise.cli.index.delete", "delete records from an index, by their keys or by a filter"),
    "index merge": ("equipoise.cli.index.merge", "make one segment of an index's many, without what was deleted"),
    "search": ("equipoise.cli.search", "find what is closest to a text or a picture in an index"),
    "import": (
        "equipoise.cli.import_model",
        "make a model folder of weights that open_clip, OpenAI or transformers published",
    ),
    "export": ("equipoise.cli.export_model", "write a model for open_clip, for transformers or as ONNX"),
    "push": ("equipoise.cli.push", "upload a model folder to the Hugging Face hub, with its card"),
    "pull": ("equipoise.cli.pull", "fetch a model folder from the hub, and compare it with its digests"),
    "lab equilibrium": ("equipoise.cli.lab.equilibrium", "where alignment balances uniformity, over the logit scale"),
    "lab temperature": ("equipoise.cli.lab.temperature", "how the logit scale of runs moved, and when it converged"),
    "lab landscape": (
        "equipoise.cli.lab.landscape",
        "the loss around the trained weights at two logit scales, and the gradient",
    ),
    "lab similarities": ("equipoise.cli.lab.similarities", "distributions of similarities, in and out of domain"),
    "lab tokens": ("equipoise.cli.lab.tokens", "accuracy with random subsets of the class tokens"),
    "lab cost": ("equipoise.cli.lab.cost", "what class tokens add to a recipe's cost, estimated and measured"),
    "codes": (
        "equipoise.cli.codes",
        "what the codes of a code book stand for: a page of their pictures and words, or the codes of a word",
    ),
    "explain": (
        "equipoise.cli.explain",
        "which places of a picture and which words of a text their similarity rests on, as a picture and JSON",
    ),
    "completeness": (
        "equipoise.cli.completeness",
        "does a model notice that a sentence leaves an object out, or gets it wrong?",
    ),
    "vqa": ("equipoise.cli.vqa", "train a small head on frozen features, to answer questions about pictures"),
    "simat": (
        "equipoise.cli.simat",
        "find pictures with one word changed, by a picture plus the difference of two words (SIMAT)",
    ),
    "probe": ("equipoise.cli.probe", "train a linear map on frozen features, to tell classes apart"),
    "clean": (
        "equipoise.cli.clean",
        "decide which captions of a data set to train on, by models that never saw them",
    ),
    "audit": ("equipoise.cli.audit", "how many pairs of a data set are wrong, and which; which are duplicates"),
    "shift": (
        "equipoise.cli.shift",
        "shift a model's images and texts towards each other, as far as validation data likes it",
    ),
    "claims list": ("equipoise.cli.claims.list", "list claims of papers with what was found and the verdict"),
    "claims run": ("equipoise.cli.claims.run", "run the experiment of a claim, and judge it by its rule"),
    "claims report": ("equipoise.cli.claims.report", "write one page with all claims, their figures and verdicts"),
    "show": ("equipoise.cli.show", "print a recipe with every setting resolved"),
    "cite": ("equipoise.cli.cite", "print the papers a recipe rests on, as BibTeX"),
    "recipes": ("equipoise.cli.recipes", "list the built-in recipes, paper by paper"),
    "completion": ("equipoise.cli.completion", "print a script by which a shell completes these commands"),
    "scenes preview": ("equipoise.cli.scenes.preview", "write a contact sheet of scenes with their captions"),
    "scenes write": ("equipoise.cli.scenes.write", "write WebDataset shards with the truth in .json"),
    "data check": (
        "equipoise.cli.data.check",
        "read all of a data set once: counts, sizes, captions, copies, faults, a picture sheet",
    ),
    "data convert": (
        "equipoise.cli.data.convert",
        "make files of modalities of a published pickle (CMU-MOSI, CMU-MOSEI), of which nothing runs",
    ),
    "data prepare": ("equipoise.cli.data.prepare", "re-encode a data set as shards at a training resolution"),
    "regions": (
        "equipoise.cli.regions",
        "find regions and tags of pictures with a detector, to guide training by",
    ),
}

# What the commands within a command are called, and the command's own line of help.
GROUPS: dict[str, tuple[str, str]] = {
    "lab": ("experiment", "experiments with a trained model: a picture, numbers and a sentence each"),
    "claims": ("command", "claims of papers as experiments with a verdict; alone it lists them"),
    "scenes": ("command", "look at the built-in corpus, or write it as shards"),
    "data": ("command", "look at data, or prepare it for training"),
    "index": ("command", "an index of data, to search in; with a MODEL and DATA it makes one"),
}

# The command that is meant where a group is named alone.
ALONE = {"claims": "claims list"}

# The command of a group that is meant where no other of it is named.
IMPLIED = {"index": "build"}
