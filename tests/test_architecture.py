"""Architecture rules, read off the source: imports go one way, names are chosen in one place."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "equipoise"
DISTRIBUTED = "equipoise.training.distributed"

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
    "losses",
    "training",
    "detection",
    "evaluation",
    "index",
    "finetuning",
    "claims",
    "reports",
    "analysis",
    "citations",
    "config",
    "workflows",
    "serve",
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
    "losses",
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


ROOT = {"__init__", "__main__", "citations", "config", "types"}
TOP_LEVEL_ROOMS = 30  # at most: what a newcomer can survey


@cache
def modules() -> list[tuple[str, Path]]:
    return [(part(path), path) for path in sorted(PACKAGE.rglob("*.py"))]


def part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def dotted(path: Path) -> str:
    """The module's name as an import writes it."""
    return ".".join(("equipoise", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def module_names() -> frozenset[str]:
    return frozenset(dotted(path) for _, path in modules())


@cache
def imports(path: Path, inside_functions: bool = True) -> frozenset[str]:
    """Full names of all that a module imports, also for type checkers alone (`if TYPE_CHECKING`)."""
    found = set()
    for node in nodes(tree(path), inside_functions):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def nodes(root: ast.AST, inside_functions: bool) -> Iterator[ast.AST]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        if inside_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += ast.iter_child_nodes(node)


def parts_imported(path: Path) -> set[str]:
    ours = {name.split(".")[1] for name in imports(path) if name.startswith("equipoise.")}
    return {name for name in ours if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()}


def modules_imported(path: Path, inside_functions: bool = True) -> set[str]:
    """Modules of the package that a module imports, or imports something of."""
    names = (name if name in module_names() else name.rpartition(".")[0] for name in imports(path, inside_functions))
    return {name for name in names if name in module_names()}


def require_acyclic(graph: Mapping[str, set[str]]) -> None:
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, f"import cycle: {' -> '.join((*trail, name))}"
        if name not in done:
            for following in sorted(graph.get(name, ())):
                visit(following, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


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
    """Between modules, whether an import is for running or for type checking."""
    graph = {dotted(path): modules_imported(path, inside_functions=False) for _, path in modules()}
    graph["equipoise"] = set()  # it imports names when they are first used
    require_acyclic(graph)


def test_no_circle_between_rooms():
    """Inside every folder, its modules and folders import each other one way, a folder counting as a whole.

    A folder may lean on modules beside it (`training/checkpoint` on `training/step.py`) and modules beside it on the
    folder (`training/loop.py`), never the same module both ways. Imports inside functions count too.
    """
    paths = {dotted(path): path.relative_to(PACKAGE.parent).with_suffix("").parts for _, path in modules()}
    graphs: defaultdict[tuple[str, ...], defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for _, path in modules():
        here = paths[dotted(path)]
        for name in modules_imported(path):
            there = paths[name]
            depth = next((i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), None)
            if depth and "__init__" not in {here[depth], there[depth]}:
                graphs[here[:depth]][here[depth]].add(there[depth])
    assert {("equipoise",), ("equipoise", "training"), ("equipoise", "kernels")} <= graphs.keys()
    for graph in graphs.values():
        require_acyclic(graph)


def test_few_rooms_and_fewer_loose_modules():
    loose = {path.stem for path in PACKAGE.glob("*.py")}
    rooms = {path.relative_to(PACKAGE).parts[0] for _, path in modules() if path.parent != PACKAGE}
    assert loose <= ROOT
    assert len(rooms) <= TOP_LEVEL_ROOMS


def test_torch_distributed_is_used_by_kernels_and_training_alone():
    variables = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}  # a launcher's
    for path in above_training():
        assert not [i for i in imports(path) if f"{i}.".startswith("torch.distributed.")], path
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Attribute) and node.attr == "distributed":
                assert ast.unparse(node.value) != "torch", path
            assert not (isinstance(node, ast.Constant) and node.value in variables), f"{path} reads {node.value}"


def test_ranks_are_handed_out_by_the_entries_of_workflows():
    """Above kernels and training only `workflows` knows ranks, and only a function that the command line calls may
    start the process group: all below it is given `Ranks`."""
    entries = {name.rpartition(".")[2] for room, path in modules() if room == "cli" for name in imports(path)}
    assert f"{DISTRIBUTED}.process_group" in module_names()
    for path in above_training():
        known = {name.split(".")[3] for name in imports(path) if name.startswith(f"{DISTRIBUTED}.")}
        known -= {"loss_sharding"}  # whether settings go together: no rank takes part
        assert part(path) == "workflows" or not known, f"{path} knows of ranks: {known}"
        if "process_group" in known:
            starters = {function.name for function in tree(path).body if names_used(function) >= {"process_group"}}
            assert starters <= entries, f"{path}: {starters - entries} start a process group, but no command calls them"


def above_training() -> list[Path]:
    return [path for room, path in modules() if room not in {"kernels", "training"}]


def names_used(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def test_no_component_reads_the_configuration():
    for name, path in modules():
        if name not in {"config", "workflows", "cli", "__init__"}:
            assert "config" not in parts_imported(path), f"{path} imports config"


@pytest.mark.parametrize("folder", CHOICES)
def test_names_are_chosen_in_literal_dicts(folder):
    gathered = tree(PACKAGE / folder / "__init__.py")
    dicts = {
        node.target.id
        for node in gathered.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(node.value, ast.Dict)
    }
    assert dicts >= CHOICES[folder]
    for path in (PACKAGE / folder).rglob("*.py"):
        writes = [
            node
            for node in ast.walk(tree(path))
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
