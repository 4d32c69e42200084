"""The rules that keep the house habitable, read off the source: imports go one way, names are chosen in one place."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "equipoise"

# From the bottom up: a part may import itself and those before it, the foundation always.
FOUNDATION = ("types", "settings", "io", "ops")
ORDER = (
    "data",
    "encoders",
    "spaces",
    "readouts",
    "heads",
    "models",
    "interop",
    "targets",
    "forms",
    "kernels",
    "objectives",
    "training",
    "detection",
    "evaluation",
    "finetuning",
    "reports",
    "analysis",
    "citations",
    "config",
    "workflows",
    "cli",
    "__main__",
)
CORE = (
    "spaces",
    "targets",
    "forms",
    "kernels",
    "objectives",
    "encoders",
    "readouts",
    "heads",
    "models",
    "interop",
    "training",
)
ABSENT = (
    "rich",
    "tokenizers",
    "matplotlib",
    "jinja2",
    "tensorboard",
    "webdataset",
    "transformers",
    "simplejpeg",
    "pyarrow",
)
CHOICES = {
    "encoders": {"IMAGE_ENCODERS", "TEXT_ENCODERS"},
    "readouts": {"READOUTS"},
    "spaces": {"SPACES"},
    "targets": {"TARGETS"},
    "forms": {"FORMS"},
    "objectives": {"OBJECTIVES"},
    "data": {"SOURCES"},
    "evaluation": {"EVALUATIONS"},
}


def modules() -> list[tuple[str, Path]]:
    return [(part(path), path) for path in sorted(PACKAGE.rglob("*.py"))]


def part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path, top_level_only: bool = False) -> set[str]:
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level_only else ast.walk(tree)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def parts_imported(path: Path) -> set[str]:
    ours = {name.split(".")[1] for name in imports(path) if name.startswith("equipoise.")}
    return {name for name in ours if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()}


def test_every_part_has_its_place():
    assert {name for name, _ in modules()} - {"__init__"} == {*FOUNDATION, *ORDER}


@pytest.mark.parametrize(
    ("name", "path"), modules(), ids=lambda x: str(x.relative_to(PACKAGE)) if isinstance(x, Path) else ""
)
def test_imports_go_one_way(name, path):
    if name == "__init__":
        return
    below = (
        FOUNDATION[: FOUNDATION.index(name) + 1]
        if name in FOUNDATION
        else (*FOUNDATION, *ORDER[: ORDER.index(name) + 1])
    )
    assert parts_imported(path) <= {*below}, f"{path} imports upwards"


def test_no_cycles():
    graph = {}
    for _, path in modules():
        name = ".".join(("equipoise", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        graph[name] = {i for i in imports(path, top_level_only=True) if i.startswith("equipoise")}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, f"import cycle: {' -> '.join((*trail, name))}"
        if name not in done:
            for following in graph[name] & graph.keys():
                # a package's __init__ gathers its own modules; they may name the package itself
                if not (following == name or name.startswith(f"{following}.")):
                    visit(following, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_ranks_appear_only_where_they_belong():
    for name, path in modules():
        if name in {"kernels", "training"}:
            continue
        text = path.read_text()
        for word in ("torch.distributed", "world_size", "get_rank", "local_rank"):
            assert word not in text, f"{path} mentions {word}"


def test_no_component_reads_the_configuration():
    for name, path in modules():
        if name not in {"config", "workflows", "cli", "__init__"}:
            assert "config" not in parts_imported(path), f"{path} imports config"


@pytest.mark.parametrize("folder", CHOICES)
def test_names_are_chosen_in_literal_dicts(folder):
    tree = ast.parse((PACKAGE / folder / "__init__.py").read_text())
    dicts = {
        node.target.id
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(node.value, ast.Dict)
    }
    assert dicts >= CHOICES[folder]
    for path in (PACKAGE / folder).rglob("*.py"):
        writes = [
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value).isupper()
        ]
        assert not writes, f"{path} fills a dict of choices from elsewhere"


def test_core_imports_with_torch_numpy_pillow_and_safetensors_alone():
    names = [f"equipoise.{name}" for name in CORE] + ["equipoise.training.loop", "equipoise.models.folder", "equipoise"]
    measured = [path for name, path in modules() if name in {"evaluation", "analysis"}]  # pictures are drawn on demand
    names += [".".join(("equipoise", *path.relative_to(PACKAGE).with_suffix("").parts)) for path in measured]
    script = f"""
import importlib, sys
for absent in {ABSENT}:
    sys.modules[absent] = None  # importing it now fails, as if it were not installed
for name in {names}:
    importlib.import_module(name)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_no_junk_drawer():
    assert not [path for _, path in modules() if path.stem in {"utils", "helpers", "misc", "common"}]
