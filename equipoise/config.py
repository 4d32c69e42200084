"""A run: everything that is chosen before anything is built, read from a recipe.

    loaded = load_run("demo", ["seed=3"])
    loaded.run        the components' own dataclasses, put together
    loaded.table      the same as a nested dict with every key filled in

The table is what `equipoise show` prints and what is stored with the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from equipoise.data import SOURCES, SourceConfig
from equipoise.data.augment import Augment
from equipoise.data.caption_shuffle import Shuffle
from equipoise.data.keep.rules import WEIGHTS
from equipoise.data.keep.settings import Clean, Keep
from equipoise.data.preprocess import Preprocess
from equipoise.data.sample_views import hides_words
from equipoise.data.source import CLASS_PROMPTS, Source
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.encoders import IMAGE_ENCODERS, TEXT_ENCODERS, ImageConfig, TextConfig
from equipoise.evaluation.settings import Evaluation
from equipoise.finetuning.settings import Finetuning
from equipoise.models.embedding_shift import EmbeddingShift
from equipoise.models.logit_scale import LogitScale
from equipoise.models.lora import Lora
from equipoise.models.modalities import MODALITIES, ModalitiesConfig
from equipoise.models.prompts import Prompts
from equipoise.models.region_branch import RegionBranch
from equipoise.objectives import OBJECTIVES, ModalPairs, Objective
from equipoise.readouts import READOUTS, ReadoutConfig
from equipoise.settings.bounds import SEED, within
from equipoise.settings.choice import choice
from equipoise.settings.layers import Layer, LayeredTable
from equipoise.settings.recipe import PathLike, builtin_recipes, read_recipe, read_table
from equipoise.settings.resolve import resolve
from equipoise.settings.toml import dump
from equipoise.spaces import SPACES, Space
from equipoise.training.distributed.loss_sharding import require_possible
from equipoise.training.length import layers_by_epochs
from equipoise.training.settings import Training
from equipoise.types import EVERY_MODALITY, JOINT, SCORES, UserError

OF_CLASSES = "acc1"  # the metric that chooses the best model of class data
OF_SUBSETS = "mean_accuracy"  # the same of data of modalities, the mean over all subsets of them
UNWEIGHTED = (
    "do not count in this objective, or in its form, which does not say what they do to it (docs/clean.md); choose "
    "another, clip for instance, or the rule threshold or share"
)

__all__ = ["Loaded", "Run", "builtin_recipes", "dump", "load_layers", "load_run", "load_settings", "load_stored"]


@dataclass(frozen=True)
class Run:
    name: str = "run"  # of the run; its folder is runs/NAME
    seed: int = within(SEED, 0)  # of weights, order and augmentation
    data: SourceConfig = choice(SOURCES, "scenes")
    shuffle: Shuffle = field(default_factory=Shuffle)
    keep: Keep = field(default_factory=Keep)
    clean: Clean = field(default_factory=Clean)
    tokens: CaptionTokenizer.Config = field(default_factory=CaptionTokenizer.Config)
    preprocess: Preprocess = field(default_factory=Preprocess)
    augment: Augment = field(default_factory=Augment)
    image: ImageConfig = choice(IMAGE_ENCODERS, "vit-b32")
    text: TextConfig = choice(TEXT_ENCODERS, "causal-b")
    modalities: ModalitiesConfig = choice(MODALITIES, "none")
    regions: RegionBranch.Config = field(default_factory=RegionBranch.Config)
    prompts: Prompts.Config = field(default_factory=Prompts.Config)
    readout: ReadoutConfig = choice(READOUTS, "class_token")
    space: Space = choice(SPACES, "sphere")
    shift: EmbeddingShift.Config = field(default_factory=EmbeddingShift.Config)
    temperature: LogitScale = field(default_factory=LogitScale)
    objective: Objective = choice(OBJECTIVES, "clip")
    training: Training = field(default_factory=Training)
    evaluation: Evaluation = field(default_factory=Evaluation)
    lora: Lora = field(default_factory=Lora)
    finetuning: Finetuning = field(default_factory=Finetuning)

    def __post_init__(self) -> None:
        if not self.name or not self.name.isprintable() or Path(self.name).name != self.name:
            raise UserError(f"name is {self.name!r}; a run's folder is called so, so give a plain folder name")
        if not 0 <= self.seed < 2**63:
            raise UserError(f"seed is {self.seed}; choose a whole number from 0 to 2^63 - 1")
        if self.shuffle.share and CLASS_PROMPTS in self.objective.views:
            raise UserError(
                "shuffle exchanges captions, but the objective looks at the classes of images and at no captions; set "
                "shuffle.share to 0"
            )
        if (self.keep.folder or self.clean.enabled) and CLASS_PROMPTS in self.objective.views:
            raise UserError(
                "keep and clean choose among captions, but the objective looks at the classes of images and at no "
                "captions; leave keep.folder empty and clean.enabled false"
            )
        if WEIGHTS in (self.keep.rule, self.clean.rule) and not self.objective.weighs_pairs:
            raise UserError(f"{WEIGHTS} of pairs {UNWEIGHTED}")
        if self.keep.folder and self.clean.enabled:
            raise UserError(
                "keep.folder names pairs that were cleaned before, and clean.enabled cleans them anew; set one of them"
            )
        if self.objective.mixes and not self.space.has_geodesics:
            raise UserError(
                f"the objective mixes points along geodesics, which the space {type(self.space).__name__} has not; "
                "choose an objective without mixups, or a space that has them, the sphere for instance"
            )
        if {EVERY_MODALITY, JOINT, SCORES} & set(self.objective.needs) and not self.modalities.names:
            raise UserError(
                "the objective is of named modalities, but the model reads images and texts; set modalities.name to "
                '"named"'
            )
        if self.modalities.names:
            self._check_modalities()
        self.temperature.within(self.space)  # a start that cannot be matched,
        self.training.teacher_roles(self.objective.needs)  # a missing teacher,
        self.objective.check_batches(self.training.batch_size, self.training.micro_batch)  # batches that do not fit,
        require_possible(self.training, self.objective)  # an objective that cannot be sharded and
        self.caption_tokens()  # too small a context raise UserError before anything is made

    def _check_modalities(self) -> None:
        if self.shuffle.share or self.keep.folder or self.clean.enabled:
            raise UserError(
                "shuffle, keep and clean choose among captions, which samples of modalities have not; leave "
                "shuffle.share at 0, keep.folder empty and clean.enabled false"
            )
        if self.tokens.kind != "none":
            raise UserError('a model of modalities reads no words; set tokens.kind to "none"')
        if self.lora.rank or self.prompts.length or self.regions.width:
            raise UserError("lora, prompts and regions belong to towers of images and texts; leave them out")
        if isinstance(self.objective, ModalPairs):
            self.objective.check_names(self.modalities.names)

    def training_pairs(self) -> Source:
        """The training split, with the wrong captions that were asked for and without those that are not kept."""
        source = self.keep.applied_to(self.shuffle.applied_to(self.data.build("train")))
        if getattr(source, "caption_weights", None) is not None and not self.objective.weighs_pairs:
            raise UserError(f"{self.keep.folder} weighs captions, but weights of pairs {UNWEIGHTED}")
        return source

    def caption_tokens(self) -> CaptionTokenizer.Config:
        """The tokenizer's settings, with the room that class tokens and prompts leave, and what the objective needs."""
        beside = getattr(self.readout, "beside_context", False)
        classes = 1 if beside else self.readout.class_tokens(self.space)
        tokens = self.tokens.beside(classes, self.prompts.room)
        return replace(tokens, mask=tokens.mask or hides_words(self.objective.views))


@dataclass(frozen=True)
class Loaded:
    run: Run
    table: dict[str, Any]

    def with_training(self, **changed: Any) -> Loaded:
        """The run with some keys of [training] changed."""
        table = {**self.table, "training": {**self.table["training"], **changed}}
        return Loaded(replace(self.run, training=replace(self.run.training, **changed)), table)


def load_run(recipe: PathLike, overrides: Sequence[str] = ()) -> Loaded:
    """A run from a built-in recipe or a recipe file, with `--set` overrides."""
    return _loaded(read_recipe(recipe, overrides))


def load_stored(path: PathLike, overrides: Sequence[str] = ()) -> Loaded:
    """A run from the `config.toml` that was stored with its model, with `--set` overrides."""
    return _loaded(read_table(path, overrides))


def _loaded(table: LayeredTable) -> Loaded:
    table = replace(table, layers=tuple(map(_by_its_name, table.layers)))
    loaded = Loaded(*resolve(Run, table))
    if loaded.run.training.epochs and not layers_by_epochs(table.layers):
        loaded = loaded.with_training(epochs=0.0)
    if "best" in table.child("training"):
        return loaded
    if loaded.run.modalities.names:
        return loaded.with_training(best=OF_SUBSETS)
    if not getattr(loaded.run.data, "names_classes", False):
        return loaded
    # captions are names of classes, the same for all images of a class, so that there is nothing to retrieve
    return loaded.with_training(best=OF_CLASSES)


def _by_its_name(layer: Layer) -> Layer:
    """The layer with `data.keep`, which may be said of every source, as what it is: `keep.folder`."""
    data, keep = layer.values.get("data"), layer.values.get("keep", {})
    if not isinstance(data, Mapping) or "keep" not in data or not isinstance(keep, Mapping):
        return layer
    if "folder" in keep:
        message = "data.keep and keep.folder say the same; give one of them"
        raise LayeredTable((layer,)).error(message, "data", "keep")
    rest = {name: value for name, value in data.items() if name != "keep"}
    values = {**layer.values, "data": rest, "keep": {**keep, "folder": data["keep"]}}
    place = layer.places.get(("data", "keep"), layer.source)
    return replace(layer, values=values, places={**layer.places, ("keep", "folder"): place})


def load_settings(settings: Mapping[str, Any], source: str) -> Loaded:
    """A run from a table of settings that a program made; `source` says in errors what it made them from."""
    return load_layers(Layer(source, settings, {}))


def load_layers(*layers: Layer) -> Loaded:
    """A run from layers of settings, the oldest first."""
    return _loaded(LayeredTable(layers))
