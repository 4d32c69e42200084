"""Files of weights: safe to open, in every form they come in, and refused where they do not fit."""

from __future__ import annotations

import gzip
import json
import os
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from small_clip import (
    CAPTIONS,
    assert_same_points,
    small_config,
    small_open_clip,
    small_tokens,
    write_open_clip,
)

import equipoise as eq
from equipoise.interop import ImportRequest
from equipoise.interop.checkpoint import read_checkpoint
from equipoise.interop.tokenizer import CLIP_FILE, is_clip_tokenizer
from equipoise.types import UserError
from equipoise.workflows import import_model


@pytest.fixture(scope="module")
def small():
    return small_tokens()


@pytest.fixture(scope="module")
def config(small):
    return small_config("vit", small, quick_gelu=True)


@pytest.fixture(scope="module")
def peer(open_clip, config):
    return small_open_clip(open_clip, config)


@pytest.fixture
def beside(tmp_path: Path, small, config) -> dict[str, str]:
    """What stands in for what weights alone do not say."""
    (tmp_path / "settings.json").write_text(json.dumps(config))
    (tmp_path / "tokens").mkdir()
    small.save(tmp_path / "tokens")
    return {"model": str(tmp_path / "settings.json"), "tokenizer": str(tmp_path / "tokens")}


FORMS = {
    "plain.pt": torch.save,
    "training.pt": lambda state, path: torch.save(
        {"epoch": 3, "name": "run", "state_dict": _prefixed(state), "optimizer": {"state": {}}}, path
    ),
    "compiled.pth": lambda state, path: torch.save(_prefixed(_prefixed(state, "_orig_mod."), "module."), path),
    "legacy.bin": lambda state, path: torch.save(state, path, _use_new_zipfile_serialization=False),
    "whole.safetensors": lambda state, path: save_file({n: t.contiguous() for n, t in state.items()}, path),
}


def _prefixed(state, prefix="module."):
    return {f"{prefix}{name}": tensor for name, tensor in state.items()}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_same_model(tmp_path: Path, peer, beside, name: str):
    FORMS[name](peer.state_dict(), tmp_path / name)
    assert_same_points(eq.load(tmp_path / name, **beside), peer)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_weights_are_the_same_numbers_in_float32(tmp_path: Path, open_clip, config, beside, dtype):
    half = small_open_clip(open_clip, config).to(dtype)
    torch.save(half.state_dict(), tmp_path / "half.pt")
    ours = eq.load(tmp_path / "half.pt", **beside)
    assert {tensor.dtype for tensor in ours.state_dict().values()} == {torch.float32}
    assert_same_points(ours, half.float())


def test_double_precision_would_lose_digits_and_is_refused(tmp_path: Path, peer, beside):
    state = {**peer.state_dict(), "text_projection": peer.text_projection.detach().double()}
    torch.save(state, tmp_path / "double.pt")
    with pytest.raises(UserError, match=r"double\.pt: text_projection is float64"):
        eq.load(tmp_path / "double.pt", **beside)


def test_weights_alone_need_a_word_about_their_activation(tmp_path: Path, peer):
    torch.save(peer.state_dict(), tmp_path / "plain.pt")
    with pytest.raises(UserError, match=r"do not say whether they were trained with QuickGELU"):
        eq.load(tmp_path / "plain.pt")
    with pytest.raises(UserError, match=r"--model ViT-B-33 .*did you mean \"ViT-B-32\".*-quickgelu"):
        eq.load(tmp_path / "plain.pt", model="ViT-B-33")


def test_differences_are_all_said_and_nothing_is_loaded(tmp_path: Path, peer, small, config):
    state = dict(peer.state_dict())
    for block in range(2):
        del state[f"transformer.resblocks.{block}.ln_1.bias"]
    state["visual.proj"] = state["visual.proj"][:, :5]
    state["visual.extra"] = torch.zeros(3)
    folder = write_open_clip(tmp_path / "theirs", state, config, small)
    with pytest.raises(UserError) as caught:
        eq.load(folder)
    assert str(caught.value) == (
        f"{folder / 'open_clip_model.safetensors'} does not fit its settings, nothing was loaded: "
        "visual.proj is 24×5, not 24×12; transformer.resblocks.{0,1}.ln_1.bias is missing; "
        "visual.extra is not part of the model"
    )


def test_weights_that_are_not_finite_are_refused(tmp_path: Path, peer, beside):
    state = {**peer.state_dict(), "ln_final.bias": torch.full((32,), float("nan"))}
    torch.save(state, tmp_path / "nan.pt")
    with pytest.raises(UserError, match=r"not finite, nothing was loaded: ln_final\.bias"):
        eq.load(tmp_path / "nan.pt", **beside)


class Evil:
    """Unpickled by Python's own reader, it would leave a file behind."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("new", [True, False])
def test_a_pickle_with_code_in_it_is_refused_and_not_run(tmp_path: Path, peer, beside, new: bool):
    trap = tmp_path / "trap"
    torch.save({**peer.state_dict(), "evil": Evil(trap)}, tmp_path / "evil.pt", _use_new_zipfile_serialization=new)
    with pytest.raises(UserError) as caught:
        eq.load(tmp_path / "evil.pt", **beside)
    assert "evil.pt is refused" in str(caught.value)
    assert "mkdir" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not trap.exists()
    torch.load(tmp_path / "evil.pt", weights_only=False)  # the trap is a real one
    assert trap.exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "cannot read weights from .*: it is damaged, or no checkpoint"),
        (b"hello\n", "cannot read weights from .*: it is damaged, or no checkpoint"),
        (b"not a checkpoint", "cannot read weights|is refused"),
        (b"PK\x03\x04", "cannot read"),
    ],
)
def test_files_that_are_no_checkpoint_are_one_sentence(tmp_path: Path, content: bytes, sentence: str):
    (tmp_path / "x.pt").write_bytes(content)
    with pytest.raises(UserError, match=sentence) as caught:
        read_checkpoint(tmp_path / "x.pt")
    assert "\n" not in str(caught.value)
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(UserError, match="holds no table of tensors"):
        read_checkpoint(tmp_path / "list.pt")
    with pytest.raises(UserError, match="there is no file"):
        read_checkpoint(tmp_path / "nowhere.pt")


@pytest.fixture(scope="module")
def openai_archive(tmp_path_factory, peer, config):
    """A program with its weights in half precision and the numbers OpenAI puts beside them."""

    class Published(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name, child in peer.named_children():
                self.add_module(name, child)
            for name in ("positional_embedding", "text_projection", "logit_scale"):
                setattr(self, name, torch.nn.Parameter(getattr(peer, name).detach().clone()))
            for name, number in (("input_resolution", 32), ("context_length", 16), ("vocab_size", 539)):
                self.register_buffer(name, torch.tensor(number))
            self.attn_mask = torch.zeros(16, 16)

        def forward(self, images):
            return self.visual(images) * self.logit_scale.exp() + self.token_embedding.weight.sum() * 0

    path = tmp_path_factory.mktemp("openai") / "small.pt"
    module = Published().eval()
    torch.jit.trace(module, torch.randn(1, 3, 32, 32), check_trace=False).save(str(path))
    return path


def test_torchscript_is_read_without_running_it(openai_archive: Path, peer, tmp_path: Path, beside):
    state = read_checkpoint(openai_archive)
    assert {**peer.state_dict()}.keys() == state.keys() - {"input_resolution", "context_length", "vocab_size"}
    for name, tensor in peer.state_dict().items():
        assert torch.equal(state[name], tensor), name
    assert_same_points(eq.load(openai_archive, **beside), peer)


def test_an_archive_that_names_a_function_is_refused_and_not_run(openai_archive: Path, tmp_path: Path):
    trap, evil = tmp_path / "trap", tmp_path / "evil.pt"
    code = b"\x80\x02cposix\nmkdir\n(X" + len(str(trap)).to_bytes(4, "little") + str(trap).encode() + b"tR."
    with zipfile.ZipFile(openai_archive) as good, zipfile.ZipFile(evil, "w") as bad:
        for name in good.namelist():
            bad.writestr(name, code if name.endswith("/data.pkl") else good.read(name))
    with pytest.raises(UserError, match=r"evil\.pt is refused: its pickle calls posix\.mkdir.*nothing of it was run"):
        read_checkpoint(evil)
    assert not trap.exists()


@pytest.mark.slow
def test_openais_weights_are_known_by_their_entries_and_have_quick_gelu(open_clip, tmp_path: Path):
    """Heads 64 wide, CLIP's vocabulary, sizes from shapes: nothing need be said."""
    config = {
        "embed_dim": 32,
        "quick_gelu": True,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 128, "patch_size": 16},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 1, "layers": 1},
    }
    peer = small_open_clip(open_clip, config)
    entries = {"input_resolution": 32, "context_length": 77, "vocab_size": 49408}
    state = {**peer.state_dict(), **{name: torch.tensor(number) for name, number in entries.items()}}
    torch.save(state, tmp_path / "openai.pt")
    ours = eq.load(tmp_path / "openai.pt")
    assert_same_points(ours, peer)
    ids = open_clip.tokenizer.SimpleTokenizer()(CAPTIONS)
    assert torch.equal(ours.tokens(CAPTIONS, pad_to_context=True)[0], ids)
    assert is_clip_tokenizer(ours.tokens)
    with pytest.raises(UserError, match=r"ViT-B-32 has none.*ViT-B-32-quickgelu"):
        eq.load(tmp_path / "openai.pt", model="ViT-B-32")
    with pytest.raises(UserError, match=r"nothing was loaded: .*visual\.conv1\.weight is 128×3×16×16, not 768×3×32×32"):
        eq.load(tmp_path / "openai.pt", model="ViT-B-32-quickgelu")
    resnet = small_open_clip(
        open_clip, {**config, "vision_cfg": {"image_size": 64, "layers": [1, 2, 1, 1], "width": 8}}
    )
    torch.save({**resnet.state_dict(), **{n: torch.tensor(0) for n in entries}}, tmp_path / "resnet.pt")
    assert_same_points(eq.load(tmp_path / "resnet.pt"), resnet)


@pytest.mark.slow
def test_clips_vocabulary_is_asked_for_where_it_is_not(monkeypatch, tmp_path: Path, open_clip):
    monkeypatch.setattr("equipoise.interop.tokenizer.find_spec", lambda name: None)
    from equipoise.interop.tokenizer import find_tokenizer

    with pytest.raises(UserError, match=r"need CLIP's vocabulary.*give --tokenizer PATH"):
        find_tokenizer(None, "", 77, is_clip=True)
    ours = find_tokenizer(None, open_clip.tokenizer.default_bpe(), 77, is_clip=True)
    assert torch.equal(ours(CAPTIONS, pad_to_context=True)[0], open_clip.tokenizer.SimpleTokenizer()(CAPTIONS))
    with gzip.open(open_clip.tokenizer.default_bpe()) as file:
        lines = file.read().split(b"\n")
    lines[3], lines[4] = lines[4], lines[3]
    (tmp_path / CLIP_FILE).write_bytes(gzip.compress(b"\n".join(lines)))
    with pytest.raises(UserError, match="this tokenizer is not CLIP's"):
        find_tokenizer(None, str(tmp_path / CLIP_FILE), 77, is_clip=True)


def test_a_name_of_the_hub_without_a_network_is_one_sentence(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"hf-hub:nobody/nothing .*local folder"):
        eq.load("hf-hub:nobody/nothing")
    with pytest.raises(UserError, match="hf-hub:a/b/c cannot be fetched"):
        eq.load("hf-hub:a/b/c")


@pytest.mark.parametrize("kind", ["resnet", "vit"])
def test_a_checkpoint_as_cyclip_publishes_it(tmp_path: Path, open_clip, small, kind: str):
    """OpenAI's layout with QuickGELU, before every key `module.`, beside an optimizer's state."""
    config = small_config(kind, small, quick_gelu=True)
    peer = small_open_clip(open_clip, config)
    optimizer = torch.optim.AdamW(peer.parameters(), 5e-4, (0.9, 0.999), 1e-8, 0.1)
    sum(parameter.sum() for parameter in peer.parameters()).backward()
    optimizer.step()
    whole = {
        "epoch": 64,
        "name": "cyclip",
        "state_dict": _prefixed(peer.state_dict()),
        "optimizer": optimizer.state_dict(),
    }
    torch.save(whole, tmp_path / "best.pt")
    (tmp_path / "settings.json").write_text(json.dumps(config))
    (tmp_path / "tokens").mkdir()
    small.save(tmp_path / "tokens")
    request = ImportRequest(model=str(tmp_path / "settings.json"), tokenizer=str(tmp_path / "tokens"))
    import_model(str(tmp_path / "best.pt"), tmp_path / "ours", request)
    ours = eq.load(tmp_path / "ours")
    assert_same_points(ours, peer)
    assert float(ours.log_scale.detach()) == pytest.approx(float(peer.logit_scale.detach()))
    (tmp_path / "settings.json").write_text(json.dumps({**config, "quick_gelu": False}))
    wrong = eq.load(tmp_path / "best.pt", model=request.model, tokenizer=request.tokenizer)
    with pytest.raises(AssertionError):  # so a wrong activation would be noticed
        assert_same_points(wrong, peer)
