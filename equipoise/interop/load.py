"""Reading models of other libraries: an open_clip folder, a transformers folder, or weights alone.

    open_clip_config.json    settings and preprocessing of open_clip, weights and perhaps a tokenizer beside it
    config.json              of transformers' CLIPModel or SiglipModel, with preprocessor_config.json and a tokenizer
    a file                   weights; the settings are those of --model, or what OpenAI's own files say, or Sun & Li's
                             (`multi_clip.py`)
    hf-hub:ORG/NAME          one of the folders, fetched first

Everything that decides a model's vectors is read from there or must be given; nothing is guessed in silence.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.interop.checkpoint import read_checkpoint
from equipoise.interop.foreign_model import ForeignModel, ImportRequest
from equipoise.interop.hub import HUB, download
from equipoise.interop.infer_config import inferred_config, is_openai
from equipoise.interop.key_mapping import KeyMap, StateDict
from equipoise.interop.multi_clip import MultiCLIP, is_multi, multi_keys, read_multi
from equipoise.interop.open_clip import coca as open_clip_coca
from equipoise.interop.open_clip import coca_keys as open_clip_coca_keys
from equipoise.interop.open_clip import config as open_clip_config
from equipoise.interop.open_clip import keys as open_clip_keys
from equipoise.interop.open_clip import siglip as open_clip_siglip
from equipoise.interop.open_clip import siglip_keys as open_clip_siglip_keys
from equipoise.interop.open_clip.names import QUICK, likely_name, named_config
from equipoise.interop.open_clip.siglip_names import SIGLIP_NAMES, named_siglip
from equipoise.interop.plain_clip import PlainCLIP
from equipoise.interop.plain_coca import PlainCoCa
from equipoise.interop.plain_siglip import PlainSigLIP
from equipoise.interop.strict_fields import Fields
from equipoise.interop.tokenizer import find_siglip_tokenizer, find_tokenizer, require_tokenizer_fits
from equipoise.interop.transformers import config as transformers_config
from equipoise.interop.transformers import keys as transformers_keys
from equipoise.interop.transformers import siglip as transformers_siglip
from equipoise.interop.transformers import siglip_keys as transformers_siglip_keys
from equipoise.io.json_files import read_json_table
from equipoise.models.folder import CONFIG
from equipoise.types import UserError

Plain = TypeVar("Plain", PlainCLIP, PlainSigLIP, PlainCoCa, MultiCLIP)
OPEN_CLIP, TRANSFORMERS, IMAGES, PROCESSOR = (
    "open_clip_config.json",
    "config.json",
    "preprocessor_config.json",
    "processor_config.json",  # where newer versions keep what the former held
)
OPEN_CLIP_WEIGHTS = (
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
)
TRANSFORMERS_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
WEIGHTS = (".pt", ".pth", ".bin", ".safetensors")


def is_foreign(path: str | Path) -> bool:
    """Whether this is a model of another library."""
    if str(path).startswith(HUB):
        return True
    path = Path(path)
    theirs = any((path / name).is_file() for name in (OPEN_CLIP, TRANSFORMERS))
    return path.is_file() or (theirs and not (path / CONFIG).is_file())


def read_foreign(path: str | Path, request: ImportRequest | None = None) -> ForeignModel:
    """Read a folder, a file or a hub name; raises UserError where it is no plain CLIP."""
    request = request or ImportRequest()
    place = download(str(path)) if str(path).startswith(HUB) else Path(path)
    if place.is_file():
        return _file(place, request)
    if (place / OPEN_CLIP).is_file():
        return _open_clip(place, _weights(place, OPEN_CLIP_WEIGHTS), request)
    if (place / TRANSFORMERS).is_file():
        return _transformers(place, request)
    hint = "" if place.is_dir() else " (there is no such folder)"
    raise UserError(
        f"no model in {place}{hint}: give a folder with {OPEN_CLIP} or {TRANSFORMERS}, or a file of weights "
        f"({', '.join(WEIGHTS)})"
    )


def _open_clip(folder: Path, weights: Path, request: ImportRequest) -> ForeignModel:
    if request.model:
        raise UserError(f"{folder / OPEN_CLIP} says what the model is; leave out --model {request.model}")
    config = read_json_table(folder / OPEN_CLIP)
    if open_clip_siglip.is_siglip(config):
        return _open_clip_siglip(config, folder, weights, _state(weights, ()), request)
    if open_clip_coca.is_coca(config):
        return _open_clip_coca(config, folder, weights, read_checkpoint(weights), request)
    plain, text = open_clip_config.read_config(config, str(folder / OPEN_CLIP))
    plain = _prepared(plain, request)
    tokenizer = find_tokenizer(folder, request.tokenizer, plain.context, is_clip=not text.has_own_tokenizer)
    require_tokenizer_fits(tokenizer, plain.vocabulary, text.end, str(folder))
    state = _state(weights, open_clip_keys.NOT_WEIGHTS)
    return ForeignModel(str(weights), plain, tokenizer, open_clip_keys.key_map_for(plain.image), state)


def _open_clip_siglip(
    config: Fields, folder: Path | None, weights: Path, state: StateDict, request: ImportRequest
) -> ForeignModel:
    where = str(folder / OPEN_CLIP) if folder else request.model
    plain, canonical = open_clip_siglip.read_config(config, where)
    tokenizer = find_siglip_tokenizer(folder, request.tokenizer, plain.context, canonical)
    return _siglip(plain, tokenizer, weights, open_clip_siglip_keys.KEY_MAP, state, request)


def _open_clip_coca(
    config: Fields, folder: Path | None, weights: Path, state: StateDict, request: ImportRequest
) -> ForeignModel:
    where = str(folder / OPEN_CLIP) if folder else request.model
    plain = _prepared(open_clip_coca.read_config(config, where), request)
    own = bool(config.get("model_cfg", config)["text_cfg"].get("hf_tokenizer_name"))
    tokenizer = find_tokenizer(folder, request.tokenizer, plain.context, is_clip=not (own or request.tokenizer))
    require_tokenizer_fits(tokenizer, plain.vocabulary, None, str(weights))
    kept = {key: tensor for key, tensor in state.items() if key not in open_clip_coca_keys.NOT_WEIGHTS}
    keys = open_clip_coca_keys
    return ForeignModel(str(weights), plain, tokenizer, keys.KEY_MAP, keys.apart(kept))


def _transformers_siglip(config: Fields, folder: Path, request: ImportRequest) -> ForeignModel:
    images = None if request.preprocess else _images(folder)
    plain = transformers_siglip.read_config(config, images, str(folder))
    tokenizer = find_siglip_tokenizer(folder, request.tokenizer, plain.context, canonical=False)
    weights = _weights(folder, TRANSFORMERS_WEIGHTS)
    state = _state(weights, transformers_keys.NOT_WEIGHTS)
    return _siglip(plain, tokenizer, weights, transformers_siglip_keys.KEY_MAP, state, request)


def _siglip(
    plain: PlainSigLIP,
    tokenizer: CaptionTokenizer,
    weights: Path,
    key_map: KeyMap,
    state: StateDict,
    request: ImportRequest,
) -> ForeignModel:
    require_tokenizer_fits(tokenizer, plain.vocabulary, None, str(weights.parent))
    plain = replace(_prepared(plain, request), text=replace(plain.text, pad=tokenizer.pad))
    return ForeignModel(str(weights), plain, tokenizer, key_map, state)


def _transformers(folder: Path, request: ImportRequest) -> ForeignModel:
    if request.model:
        raise UserError(f"{folder / TRANSFORMERS} says what the model is; leave out --model {request.model}")
    config = read_json_table(folder / TRANSFORMERS)
    kind = config.get("model_type", "nothing")
    if kind == "siglip":
        return _transformers_siglip(config, folder, request)
    if kind != "clip":
        raise UserError(f"{folder / TRANSFORMERS}: this is a model of type {kind}, but only clip or siglip can be read")
    plain, end = transformers_config.read_config(config, None if request.preprocess else _images(folder), str(folder))
    plain = _prepared(plain, request)
    tokenizer = find_tokenizer(folder, request.tokenizer, plain.context, is_clip=False)
    require_tokenizer_fits(tokenizer, plain.vocabulary, end, str(folder))
    weights = _weights(folder, TRANSFORMERS_WEIGHTS)
    state = _state(weights, transformers_keys.NOT_WEIGHTS)
    return ForeignModel(str(weights), plain, tokenizer, transformers_keys.KEY_MAP, state)


def _file(path: Path, request: ImportRequest) -> ForeignModel:
    """A file of weights; its folder is read where it is one of a library's folders."""
    if not request.model and path.name in OPEN_CLIP_WEIGHTS and (path.parent / OPEN_CLIP).is_file():
        return _open_clip(path.parent, path, request)
    if path.name in TRANSFORMERS_WEIGHTS and (path.parent / TRANSFORMERS).is_file():
        return _transformers(path.parent, request)
    if path.suffix not in WEIGHTS:
        raise UserError(f"{path}: weights are in a file that ends in {', '.join(WEIGHTS)}; give one, or a folder")
    state = read_checkpoint(path)
    if request.model in SIGLIP_NAMES or open_clip_siglip_keys.LATENT in state:
        return _open_clip_siglip(_siglip_config_of(request.model, path), None, path, state, request)
    if request.model in open_clip_coca.NAMES or open_clip_coca_keys.WORDS in state:
        return _open_clip_coca(_coca_config_of(request.model, path), None, path, state, request)
    if is_multi(state):
        return _multi(state, path, request)
    key_map = open_clip_keys.infer_key_map(state, str(path))
    config = _config_of(state, request.model, path)
    plain, text = open_clip_config.read_config(config, request.model or str(path))
    plain = _prepared(plain, request)
    tokenizer = find_tokenizer(
        None, request.tokenizer, plain.context, is_clip=not (text.has_own_tokenizer or request.tokenizer)
    )
    require_tokenizer_fits(tokenizer, plain.vocabulary, text.end, str(path))
    weights = {key: tensor for key, tensor in state.items() if key not in open_clip_keys.NOT_WEIGHTS}
    return ForeignModel(str(path), plain, tokenizer, key_map, weights)


def _multi(state: StateDict, path: Path, request: ImportRequest) -> ForeignModel:
    """Weights that Sun & Li released: they say what they are, but for the tokenizer."""
    if request.model:
        raise UserError(f"{path} holds weights of clip-mtob, which say what the model is; leave out --model")
    plain = _prepared(read_multi(state, str(path)), request)
    if not request.tokenizer:
        raise UserError(f"{path}: texts are read by BERT's WordPiece tokenizer, which is not in the weights; give its "
                        "vocab.txt or tokenizer.json with --tokenizer")  # fmt: skip
    tokenizer = find_tokenizer(None, request.tokenizer, plain.context, is_clip=False)
    require_tokenizer_fits(tokenizer, plain.vocabulary, None, str(path))
    return ForeignModel(str(path), plain, tokenizer, multi_keys(state), state)


def _siglip_config_of(model: str, path: Path) -> Fields:
    if model in SIGLIP_NAMES:
        return named_siglip(model)
    config = read_json_table(Path(model)) if model.endswith(".json") else {}
    if not open_clip_siglip.is_siglip(config):
        raise UserError(
            f"{path} holds a SigLIP's weights, which do not say how they were trained; give --model NAME, one of "
            f"{', '.join(SIGLIP_NAMES)}"
        )
    return config


def _coca_config_of(model: str, path: Path) -> Fields:
    if model in open_clip_coca.NAMES:
        return open_clip_coca.named_coca(model)
    config = read_json_table(Path(model)) if model.endswith(".json") else {}
    if not open_clip_coca.is_coca(config):
        raise UserError(
            f"{path} holds a CoCa's weights, which do not say how many heads it has; give --model NAME, one of "
            f"{', '.join(open_clip_coca.NAMES)}, or a .json file of open_clip's settings"
        )
    return config


def _config_of(state: StateDict, model: str, path: Path) -> Fields:
    openai = is_openai(state)
    if not model:
        config = inferred_config(state, str(path))
        if openai:
            return {**config, "quick_gelu": True}
        likely = likely_name(config) or "NAME"
        raise UserError(
            f"{path} holds weights alone, which do not say whether they were trained with QuickGELU; "
            f"give --model {likely}, or --model {likely}{QUICK}"
        )
    if model.endswith(".json"):
        return read_json_table(Path(model))
    config = named_config(model)
    if openai and not config["quick_gelu"]:
        raise UserError(f"{path} is OpenAI's, whose models have QuickGELU, but {model} has none; give {model}{QUICK}")
    return config


def _prepared(plain: Plain, request: ImportRequest) -> Plain:
    if not request.preprocess:
        return plain
    fields = read_json_table(Path(request.preprocess))
    return replace(
        plain, preprocess=open_clip_config.read_preprocess(fields, plain.preprocess.size, request.preprocess)
    )


def _images(folder: Path) -> Fields:
    if (folder / IMAGES).is_file():
        return read_json_table(folder / IMAGES)
    if (folder / PROCESSOR).is_file() and "image_processor" in (fields := read_json_table(folder / PROCESSOR)):
        if isinstance(fields["image_processor"], dict):
            return fields["image_processor"]
        raise UserError(f"{folder / PROCESSOR}: image_processor must be a table; add {IMAGES}, or give --preprocess")
    raise UserError(
        f"{folder} does not say how images are prepared: {IMAGES} is missing; add it, or give --preprocess FILE"
    )


def _weights(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise UserError(f"{folder} holds no weights: none of {', '.join(names)} is there")


def _state(path: Path, not_weights: tuple[str, ...]) -> StateDict:
    return {key: tensor for key, tensor in read_checkpoint(path).items() if key not in not_weights}
