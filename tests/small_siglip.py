"""A SigLIP of transformers small enough for every test, and a SentencePiece tokenizer as its folders have."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from small_clip import CAPTIONS, CONTEXT, SIZE, disturbed
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from torch import nn

from equipoise.models.model import Model


def write_sentencepiece(folder: Path, pad: str = "</s>", **settings: Any) -> int:
    """tokenizer.json and tokenizer_config.json; returns the number of tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=60, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(CAPTIONS * 20, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokenizer.save(str(folder / "tokenizer.json"))
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": pad, "eos_token": "</s>", **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    return tokenizer.get_vocab_size()


def small_siglip(transformers: ModuleType, vocabulary: int) -> nn.Module:
    torch.manual_seed(0)
    text = {"hidden_size": 32, "intermediate_size": 100, "num_hidden_layers": 2, "num_attention_heads": 4}
    vision = {"hidden_size": 24, "intermediate_size": 70, "num_hidden_layers": 2, "num_attention_heads": 3}
    config = transformers.SiglipConfig(
        text_config={**text, "vocab_size": vocabulary, "max_position_embeddings": CONTEXT, "projection_size": 24},
        vision_config={**vision, "image_size": SIZE, "patch_size": 8},
    )
    return disturbed(transformers.SiglipModel(config)).eval()


def write_siglip(folder: Path, transformers: ModuleType, pad: str = "</s>", **settings: Any) -> nn.Module:
    """A folder as transformers writes it, and the model in it."""
    peer = small_siglip(transformers, write_sentencepiece(folder, pad, **settings))
    peer.save_pretrained(folder)
    transformers.SiglipImageProcessor(size={"height": SIZE, "width": SIZE}).save_pretrained(folder)
    return peer


@torch.no_grad()
def assert_same_siglip(model: Model, peer: Any, ids: torch.Tensor, texts: list[str] = CAPTIONS) -> None:
    """The same points, to 1e-5, of images and of texts that the peer reads as ids padded to the context."""
    size = model.preprocess.size
    images = torch.randn(3, 3, size, size, generator=torch.Generator().manual_seed(1))
    if hasattr(peer, "get_image_features"):
        both = peer(pixel_values=images, input_ids=ids)
        theirs = both.image_embeds, both.text_embeds
    else:
        theirs = peer.encode_image(images, normalize=True), peer.encode_text(ids, normalize=True)
    for found, wanted in zip((model.image_points(images), model.encode_text(texts)), theirs, strict=True):
        assert found.std() > 0.01
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)
