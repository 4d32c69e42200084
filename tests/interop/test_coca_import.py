"""open_clip's CoCa, read: the same points, logits and captions as its own class with the same random weights."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from small_clip import CAPTIONS, disturbed, small_tokens
from torch import Tensor

import equipoise as eq
from equipoise.encoders.packing import Packed
from equipoise.interop import ImportRequest
from equipoise.interop.open_clip.coca import NAMES, named_coca, read_config
from equipoise.models.captioning import Decoding
from equipoise.models.captioning.beam_search import beam_search
from equipoise.models.captioning.caption import caption_ids
from equipoise.models.captioning.next_word import Specials
from equipoise.models.captioning.writer import CaptionWriter
from equipoise.types import Batch, UserError
from equipoise.workflows import import_model

CONTEXT = 16


def model_cfg(vocabulary: int, **vision: Any) -> dict[str, Any]:
    words = {"context_length": CONTEXT, "vocab_size": vocabulary, "width": 24, "heads": 4, "layers": 2}
    pool = {"attentional_pool": True, "attn_pooler_queries": 6, "attn_pooler_heads": 4, "output_tokens": True}
    return {
        "embed_dim": 24,
        "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 8, "patch_size": 8, **pool, **vision},
        "text_cfg": {**words, "embed_cls": True, "output_tokens": True, "hf_tokenizer_name": "own"},
        "multimodal_cfg": {**words, "attn_pooler_heads": 8},
        "custom_text": True,
    }


def peer_of(config: dict[str, Any]) -> Any:
    from open_clip.coca_model import CoCa

    torch.manual_seed(0)
    given = {key: value for key, value in config.items() if key != "custom_text"}
    text = {key: value for key, value in config["text_cfg"].items() if key != "correct_cls_mask"}
    peer = CoCa(**{**given, "text_cfg": text}).eval()
    peer.text.correct_cls_mask = config["text_cfg"].get("correct_cls_mask", False)
    for parameter in peer.parameters():
        if parameter.ndim > 1 and not bool(parameter.isfinite().all() and parameter.abs().max() < 100):
            torch.nn.init.normal_(parameter, std=0.1)  # open_clip leaves some as they come from memory
    torch.nn.init.normal_(peer.text_decoder.text_projection, std=0.3)
    return disturbed(peer)


def written(folder: Path, config: dict[str, Any], peer: Any, tokens: Any) -> Path:
    folder.mkdir()
    preprocess = {"mean": [0.5] * 3, "std": [0.5] * 3}
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config, "preprocess_cfg": preprocess}))
    save_file(
        {key: value.contiguous() for key, value in peer.state_dict().items()}, folder / "open_clip_model.safetensors"
    )
    tokens.save(folder)
    return folder


@pytest.fixture(scope="module")
def tokens():
    return small_tokens().within(CONTEXT)


@pytest.fixture(params=["released", "mended mask", "parallel", "cascade", "one width"], scope="module")
def pair(request, open_clip, tokens, tmp_path_factory) -> tuple[Any, Any]:
    """open_clip's model, and ours that was read from its folder."""
    special = {name: {"width": 24, "attentional_pool": name} for name in ("parallel", "cascade")}
    special["one width"] = {"width": 24}  # attention has one matrix there
    config = model_cfg(tokens.size, **special.get(request.param, {}))
    if request.param == "mended mask":
        config["text_cfg"]["correct_cls_mask"] = True
    peer = peer_of(config)
    folder = written(tmp_path_factory.mktemp("coca") / "theirs", config, peer, tokens)
    return peer, eq.load(folder)


def inputs(tokens, texts: list[str]) -> tuple[Tensor, Tensor]:
    images = torch.randn(len(texts), 3, 32, 32, generator=torch.Generator().manual_seed(1))
    return images, tokens(texts, pad_to_context=True)[0]


@torch.no_grad()
def test_points_and_logits_are_equal(pair, tokens):
    peer, ours = pair
    texts = [*CAPTIONS, "a red fish on a table " * 8]  # the last one fills the context
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is cut
        images, ids = inputs(tokens, texts)
        points = ours.encode_text(texts)
    theirs = peer(images, ids)
    torch.testing.assert_close(points, theirs["text_features"], atol=1e-5, rtol=0)
    torch.testing.assert_close(ours.image_points(images), theirs["image_features"].flatten(1), atol=1e-5, rtol=0)
    head, real = ours.heads["caption"], ids != 0
    seen = ours.image_encoder(images).tokens
    for row, length in enumerate(real.sum(1).tolist()):
        words = ours.text_encoder(ids[row : row + 1, :length], real[row : row + 1, :length]).tokens
        layout = Packed.of(torch.ones(1, length, dtype=torch.bool), causal=True)
        h = head.decoder(layout.pack(words), head.decoder.keys_values(seen[row : row + 1]), layout)
        torch.testing.assert_close(head.logits(h)[:-1], theirs["logits"][row, : length - 1], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_the_caption_loss_is_that_of_open_clip(pair, tokens, open_clip):
    peer, ours = pair
    images, ids = inputs(tokens, CAPTIONS)
    theirs = peer(images, ids)
    loss = open_clip.loss.CoCaLoss(caption_loss_weight=2.0, clip_loss_weight=1.0, pad_id=0)
    parts = loss(
        theirs["image_features"].flatten(1),
        theirs["text_features"],
        theirs["logits"],
        theirs["labels"],
        theirs["logit_scale"],
    )
    made = ours(
        Batch(images, ids, ids != 0, torch.arange(len(ids))), ("image", "text", "caption_cost", "caption_words")
    )
    found = made.further["caption_cost"].sum() / made.further["caption_words"].sum()
    assert 2.0 * float(found) == pytest.approx(float(parts[1]), abs=1e-5)


@torch.no_grad()
def test_greedy_captions_are_those_of_open_clip(pair, tokens, open_clip, monkeypatch):
    """By its own `generate`, whose draw among the one likeliest word is no draw. Where transformers has no
    BeamSearchScorer any more open_clip gives up all of it, though this part needs none."""
    transformers = pytest.importorskip("transformers")
    from open_clip import coca_model

    if not hasattr(coca_model, "LogitsProcessorList"):
        pytest.skip("open_clip finds none of transformers' logits processors")
    monkeypatch.setattr(coca_model, "_has_transformers", True)
    monkeypatch.setitem(coca_model.GENERATION_TYPES, "top_k", transformers.TopKLogitsWarper)
    peer, ours = pair
    images = torch.randn(6, 3, 32, 32, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():  # start and padding, which ours never writes
        kept = peer.text_decoder.text_projection[:, [0, tokens.start]].clone()
        peer.text_decoder.text_projection[:, [0, tokens.start]] = 0
    theirs = peer.generate(
        images, generation_type="top_k", top_k=1, seq_len=12, min_seq_len=4,
        sot_token_id=tokens.start, eos_token_id=tokens.end, pad_token_id=0,
    )  # fmt: skip
    peer.text_decoder.text_projection[:, [0, tokens.start]] = kept
    found = caption_ids(ours, images, Decoding(longest=12, shortest=4))
    expected = [[word for word in row if word not in (0, tokens.start, tokens.end)] for row in theirs.tolist()]
    assert list(found) == expected
    assert len({tuple(row) for row in expected}) > 1


@torch.no_grad()
@pytest.mark.parametrize("beams", [2, 5])
def test_beam_captions_are_those_of_open_clip_but_for_its_sums_of_logits(pair, tokens, beams):
    """open_clip adds up logits where log-probabilities are meant; told to do so, ours finds its captions."""
    from open_clip import coca_model

    if not coca_model._has_transformers:
        pytest.skip("open_clip writes no captions by beams with transformers 5, which has no BeamSearchScorer")
    peer, ours = pair
    images = torch.randn(6, 3, 32, 32, generator=torch.Generator().manual_seed(2))
    never = [0, tokens.start]
    kept = peer.text_decoder.text_projection[:, never].clone()
    peer.text_decoder.text_projection[:, never] = 0
    theirs = peer.generate(
        images, generation_type="beam_search", num_beams=beams, num_beam_groups=1, seq_len=10, min_seq_len=4,
        sot_token_id=tokens.start, eos_token_id=tokens.end, pad_token_id=0,
    )  # fmt: skip
    peer.text_decoder.text_projection[:, never] = kept
    writer = CaptionWriter(ours, images, None, 10)
    specials, settings = Specials(tokens.start, tokens.end, tuple(never)), Decoding("beam", 10, 4, beams)
    found = beam_search(writer.next, writer.reorder, specials, settings, 10, 6, images.device, score=lambda z: z)
    assert found == [[word for word in row if word not in (*never, tokens.end)] for row in theirs.tolist()]


def test_a_file_of_weights_and_earlier_versions_masks(open_clip, tokens, tmp_path):
    config = model_cfg(tokens.size)
    peer = peer_of(config)
    settings = tmp_path / "small.json"
    settings.write_text(json.dumps(config))
    tokens.save(tmp_path)
    masks = {"text.attn_mask": torch.zeros(2, 2), "text_decoder.attn_mask": torch.zeros(2, 2)}
    torch.save({**peer.state_dict(), **masks}, tmp_path / "coca.pt")
    import_model(
        str(tmp_path / "coca.pt"), tmp_path / "ours", ImportRequest(str(settings), str(tmp_path / "tokenizer.json"))
    )
    ours = eq.load(tmp_path / "ours")
    images, _ = inputs(tokens, CAPTIONS)
    with torch.no_grad():
        torch.testing.assert_close(ours.image_points(images), peer.encode_image(images), atol=1e-5, rtol=0)
    assert ours.text_encoder.config.legacy_mask
    assert all(isinstance(text, str) for text in ours.caption(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)))
    with pytest.raises(UserError, match="coca_ViT-B-32"):
        eq.load(tmp_path / "coca.pt")


def test_weights_that_do_not_fit_are_refused(open_clip, tokens, tmp_path):
    config = model_cfg(tokens.size)
    peer = peer_of(config)
    config["multimodal_cfg"]["layers"] = 3
    with pytest.raises(UserError, match="text_decoder"):
        eq.load(written(tmp_path / "theirs", config, peer, tokens))


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("vision_cfg", "attentional_pool", False), ("vision_cfg", "output_tokens", False),
        ("vision_cfg", "attentional_pool", "mean"), ("text_cfg", "embed_cls", False),
        ("text_cfg", "hf_model_name", "roberta"), ("text_cfg", "width", 32), ("multimodal_cfg", "vocab_size", 9),
        ("multimodal_cfg", "ls_init_value", 0.1), ("multimodal_cfg", "colour", "red"), ("vision_cfg", "layers", "many"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_read_are_named(part, field, value):
    config = model_cfg(100)
    config[part][field] = value
    with pytest.raises(UserError, match=field):
        read_config(config, "theirs.json")


@pytest.mark.parametrize("name", NAMES)
def test_named_sizes_are_those_of_open_clip(open_clip, name):
    theirs = open_clip.get_model_config(name)
    assert read_config(theirs, name) == read_config(named_coca(name), name)
