"""Weights of CLIPs with several class tokens, as Sun & Li released them: the same points as torch's own layers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_clip import CAPTIONS
from small_multi_clip import CONTEXT, SIZE, SmallMultiCLIP
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

import equipoise as eq
from equipoise.cli import main
from equipoise.interop import ImportRequest
from equipoise.types import UserError
from equipoise.workflows import export_model, import_model


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A WordPiece tokenizer as BERT's, and its number of tokens."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    trainer = trainers.WordPieceTrainer(vocab_size=150, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(CAPTIONS * 20, trainer)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    path = tmp_path_factory.mktemp("bert") / "tokenizer.json"
    tokenizer.save(str(path))
    return path, tokenizer.get_vocab_size()


def padded(model: eq.models.model.Model, texts: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    return model.tokens(texts, pad_to_context=True)


@pytest.mark.parametrize(("n", "m", "as_vector"), [(6, 4, False), (5, 16, False), (9, 1, False), (9, 1, True)])
def test_released_weights_give_the_same_points(n, m, as_vector, bert, tmp_path: Path, capsys) -> None:
    tokenizer, vocabulary = bert
    peer = SmallMultiCLIP(vocabulary, n, m, as_vector).eval()
    torch.save(peer.state_dict(), tmp_path / "released.pt")
    words = ["import", str(tmp_path / "released.pt"), "--tokenizer", str(tokenizer), "--out", str(tmp_path / "ours")]
    assert main(words) == 0
    ours = eq.load(tmp_path / "ours")
    texts = [*CAPTIONS, "a red fish on a table beside a dog and a cat and a red fish"]
    images = torch.randn(3, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))
    with pytest.warns(UserWarning, match=f"context is {CONTEXT}"):
        ids, mask = padded(ours, texts)
    assert ids.shape[1] == CONTEXT  # captions have all of it: class tokens stand beside
    assert mask.sum(1).max() == CONTEXT
    assert ours.text_encoder.positions.shape[0] == CONTEXT + m - 1
    with torch.no_grad():
        u, v = ours.image_points(images), ours.tower("text").points(ids, mask)
        torch.testing.assert_close(ours.similarity(u, v), peer.logits(images, ids, mask), atol=2e-5, rtol=0)
        read = [ours.tower("text").points(ids[[row]], mask[[row]]) for row in range(len(texts))]
        torch.testing.assert_close(torch.cat(read), v, atol=2e-5, rtol=0)
    assert float(ours.logit_scale.detach()) == pytest.approx(2.5)


def test_all_features_equal_those_of_class_tokens_alone(bert, tmp_path: Path) -> None:
    """Post-LN blocks have two ways through the last block."""
    peer = SmallMultiCLIP(bert[1])
    torch.save(peer.state_dict(), tmp_path / "released.pt")
    ours = eq.load(tmp_path / "released.pt", tokenizer=str(bert[0]))
    ids, mask = padded(ours, CAPTIONS)
    with torch.no_grad():
        few, every = (ours.text_encoder(ids, mask, classes_only=only) for only in (True, False))
    torch.testing.assert_close(few.classes, every.classes, atol=1e-5, rtol=0)
    assert every.tokens.shape[:2] == ids[:, 1:].shape


@pytest.mark.slow
def test_it_trains_on_and_other_libraries_refuse_it(bert, tmp_path: Path) -> None:
    torch.save(SmallMultiCLIP(bert[1]).state_dict(), tmp_path / "released.pt")
    import_model(str(tmp_path / "released.pt"), tmp_path / "ours", ImportRequest(tokenizer=str(bert[0])))
    with pytest.raises(UserError, match="no words for this model"):
        export_model(str(tmp_path / "ours"), "open_clip", tmp_path / "theirs")
    tuned = ["finetune", str(tmp_path / "ours"), "demo", "--method", "ft", "--out", str(tmp_path / "tuned")]
    sizes = ("data.train_size=16", "data.validation_size=6", "data.test_size=6", "training.steps=2",
             "training.batch_size=8", "training.device=cpu")  # fmt: skip
    assert main([*tuned, *(word for one in sizes for word in ("--set", one))]) in (0, 3)
    assert (tmp_path / "tuned" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("change", "request_", "fault"),
    [
        (lambda state: state, ImportRequest(), "--tokenizer"),
        (lambda state: state, ImportRequest(model="ViT-B-16", tokenizer="{}"), "leave out --model"),
        (lambda state: {k: v for k, v in state.items() if "conv1" not in k}, ImportRequest(tokenizer="{}"), "conv1"),
        (lambda state: state | {"visual.positional_embedding": torch.zeros(9, 128)}, ImportRequest(tokenizer="{}"),
         "positions of patches"),
        (lambda state: state | {"more": torch.zeros(1)}, ImportRequest(tokenizer="{}"), "more"),
        (lambda state: {k: v for k, v in state.items() if "layers.1.norm2" not in k}, ImportRequest(tokenizer="{}"),
         "norm2"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_sentence(change, request_, fault, bert, tmp_path: Path) -> None:
    torch.save(change(dict(SmallMultiCLIP(bert[1]).state_dict())), tmp_path / "released.pt")
    given = ImportRequest(request_.model, request_.tokenizer.replace("{}", str(bert[0])))
    with pytest.raises(UserError, match=fault):
        import_model(str(tmp_path / "released.pt"), tmp_path / "ours", given)
    assert not (tmp_path / "ours").exists()
