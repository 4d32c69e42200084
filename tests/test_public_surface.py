"""What people type: the names of the package, and what they promise."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

import equipoise as eq
from equipoise.types import UserError


def test_every_public_name_is_there() -> None:
    for name in eq.__all__:
        assert getattr(eq, name) is not None
    assert set(dir(eq)) >= set(eq.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'sphere'"):
        eq.sphere  # noqa: B018
    assert eq.UserError is UserError


def test_type_checkers_see_the_names_that_are_imported() -> None:
    tree = ast.parse(Path(eq.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {alias.asname: node.module for node in block.body for alias in node.names}  # type: ignore[attr-defined]
    assert seen == eq._HOME


def test_a_star_import_gives_every_public_name() -> None:
    scope: dict[str, object] = {}
    exec("from equipoise import *", scope)
    assert set(eq.__all__) <= scope.keys()


@pytest.mark.parametrize("module", ["equipoise", "equipoise.cli"])
def test_importing_the_package_imports_nothing_heavy(module: str) -> None:
    script = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "equipoise" in loaded
    assert not {"torch", "numpy", "PIL", "matplotlib", "rich", "tokenizers"} & set(loaded)


def test_a_loaded_model_compares_images_and_texts(finished_run: Path, tmp_path: Path) -> None:
    model = eq.load(finished_run)
    assert isinstance(model, eq.Model)
    Image.new("RGB", (40, 50), "red").save(tmp_path / "red.png")
    pictures = model.encode_image([Image.new("RGB", (64, 64), "blue"), tmp_path / "red.png"])
    v = model.encode_text(["a red fish", "a blue star", "a tree"])
    for u in (pictures, model.encode_image(torch.zeros(2, 3, 32, 32, dtype=torch.uint8))):
        assert u.shape == (2, 16)
        similarity = model.similarity(u, v)
        assert similarity.shape == (2, 3)
        assert similarity.abs().max() <= 1 + 1e-6
    assert 0 < model.log_scale.exp() <= 100.001


def test_contrast_is_the_one_line_it_stands_for() -> None:
    torch.manual_seed(0)
    space = eq.Sphere(8)
    u = space.project(torch.randn(6, 8)).requires_grad_()
    v = space.project(torch.randn(6, 8))
    t = torch.tensor(2.0, requires_grad=True)
    labels, logits = torch.arange(6), t.exp() * u @ v.T
    cross_entropy = torch.nn.functional.cross_entropy
    expected = (cross_entropy(logits, labels) + cross_entropy(logits.T, labels)) / 2
    for impl in ("auto", "eager", "tiled"):
        loss = eq.contrast(u, v, space=space, target=eq.OneHot(), form=eq.CrossEntropy(), log_scale=t, impl=impl)
        torch.testing.assert_close(loss, expected)
    for ours, theirs in zip(torch.autograd.grad(loss, (u, t)), torch.autograd.grad(expected, (u, t)), strict=True):
        torch.testing.assert_close(ours, theirs)

    given = eq.objectives.CLIP()(eq.Embeddings(image=u, text=v), log_scale=t, space=space)
    assert isinstance(given, eq.Loss)
    torch.testing.assert_close(given.total, expected)
    torch.testing.assert_close(given.terms["contrastive"], expected)


def test_scenes_are_public_with_their_truth() -> None:
    scenes = eq.Scenes.Config(test_size=3).build("test")
    for index in range(3):
        assert all(eq.matches(scenes.scene(index), caption) for caption in scenes.pair(index).captions)
