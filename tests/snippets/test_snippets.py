"""Every command and every Python snippet of README, docs and --help, run in its smallest form.

`house.py` is the one table of what stands for what the pages name. What cannot run here is in `NOT_RUN`, with the
reason: the list may only become shorter.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import types
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from open_clip_peer import make_torchvision_importable
from snippets.collect import Block, Command, Snippet, blocks, figures, snippets, statements, within_text
from snippets.house import ADDED, SPELLED, WRONG, build, small, train_what_is_named
from snippets.served import serve
from test_benchmarks import ELSEWHERE, SMALLEST

from equipoise.cli import main
from equipoise.cli.parser import build_parser
from equipoise.io import results_folder
from equipoise.settings.recipe import built_in_files
from equipoise.types import UserError
from equipoise.workflows.subject import names_files

# Part of a command, or a snippet's name, and why it is not run.
NOT_RUN = {
    "make ": "starts all of this",
    "pip install": "changes this environment",
    "python benchmarks/": "measures for minutes, or on a GPU",
    "torchrun": "several processes: tests/training does",
    "finetune MODEL DATA [": "a synopsis",
    "keep.folder=cleaned/photos": "judges of two steps keep nothing: tests/workflows/test_clean.py has better ones",
    "coco": "MSCOCO's pictures: tests/evaluation has small ones",
    "simat_db": "SIMAT's tables and Visual Genome: tests/evaluation has small ones",
    "--set data.train='pipe:aws": "a shell command that fetches",
    "my_package": "a package of the reader's own: tests/security has one",
    "epoch_30.pt": "weights of 600 MB: tests/interop has small ones",
    "finetuned.safetensors": "weights of 400 MB: tests/interop has small ones",
    "ViT-B-32.safetensors": "weights of 600 MB: tests/interop has small ones",
    "architecture.md 3": "a fragment of a file",
    "architecture.md 7": "a fragment of a file",
    "models.md 1": "weights of 600 MB, and a hub",
    "ranks.md 1": "within torchrun: tests/kernels/sharded_ranks.py does",
}
MOST_NOT_RUN = 17  # may be lowered, never raised
# What a run of two steps may end with, and a longer one does not.
ENDS = ("no judge can tell the pairs", "fine-tuning did not help")
# Libraries of others that a page speaks of and nothing here needs: tests/losses/test_own_loops.py trains with them.
PEERS = {"losses.md 4": "accelerate", "losses.md 5": "lightning"}
# What a snippet stands on: commands typed before it.
BEFORE = {
    "models.md 2": "equipoise export runs/mine --to open_clip --out exported/mine",
    "models.md 3": "equipoise export runs/mine --to transformers --out exported/mine",
    "models.md 4": "equipoise export runs/mine --to onnx --out exported/mine",
}
# Part of a command, and the library without which it is not run.
NEEDS = {"--engine ray": "ray"}
QUICK = (
    *("architecture.md 1", "architecture.md 2", "architecture.md 4"),
    *("losses.md 1", "losses.md 2", "losses.md 3", "losses.md 6", "losses.md 7"),
    *("architecture.md 5", "targets.md 1", "topology.md 1", "scenes.md 1"),
)
QUICK_EXAMPLES = ("show", "cite", "recipes", "completion", "scenes preview", "data check")


def is_quick(one: Block | Snippet) -> bool:
    if isinstance(one, Block):
        is_help = one.page == "--help"
        examples = tuple(f"equipoise {name}" for name in QUICK_EXAMPLES)
        return one.commands[0].text.startswith(examples) if is_help else one.page == "recipes.md"
    return str(one) in QUICK


def marked(some: list[Any]) -> list[Any]:
    return [pytest.param(one, id=str(one), marks=() if is_quick(one) else pytest.mark.slow) for one in some]


@pytest.fixture(scope="session")
def prototype(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("house")
    build(folder)
    return folder


@pytest.fixture
def house(prototype: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "house"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    sys.modules.pop("flat", None)
    shutil.rmtree(folder)


def furnish(house: Path, prototype: Path, text: str) -> None:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        train_what_is_named(prototype, text)
    shutil.copytree(prototype, house, symlinks=True, dirs_exist_ok=True, ignore=lambda _, names: {"trained"} & {*names})


def remove(place: Path) -> None:
    shutil.rmtree(place) if place.is_dir() else place.unlink()


def reason(text: str) -> str:
    return next((why for part, why in NOT_RUN.items() if part in text), "")


def spelled(text: str) -> str:
    for written, meant in SPELLED.items():
        text = text.replace(written, meant)
    return text


def typed(command: Command) -> list[str]:
    """The words of a command in their smallest form."""
    words = Command(command.page, spelled(command.text)).words[1:]
    options = build_parser().parse_args(words)
    words += next((more for name, more in ADDED.items() if words[: len(name.split())] == name.split()), [])
    if command.said or not hasattr(options, "set") or words[0] == "init":  # which trains nothing
        return words
    named = (word for word in words if word.removeprefix("recipe:") in built_in_files() or word.endswith(".toml"))
    recipe = next(named, "") or getattr(options, "recipe", "") or ("demo" if words[0] == "demo" else "")
    if recipe and names_files(recipe):
        recipe = "files"
    more = small(recipe, options.set, of_data=words[0] == "finetune") if recipe else []
    steps = next((number for number, word in enumerate(more) if word.startswith("training.steps=")), 0)
    if steps and getattr(options, "epochs", None):  # which say the steps
        del more[steps - 1 : steps + 1]
    return words + more


def run(words: list[str]) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("block", marked(blocks() + within_text()))
def test_commands_run_as_they_are_written(block: Block, house: Path, prototype: Path) -> None:
    wanted = [command for command in block.commands if not reason(command.text)]
    if not wanted:
        pytest.skip(reason(block.commands[0].text))
    for part, library in NEEDS.items():
        if find_spec(library) is None and any(part in command.text for command in wanted):
            pytest.skip(f"{library} is not installed: {block} is NOT run")
    furnish(house, prototype, "\n".join(spelled(command.text) for command in wanted))
    written: set[Path] = set()
    for command in wanted:
        if command.said:
            Path("mine.toml").write_text(WRONG, encoding="utf-8")
        words = typed(command)
        place = Path(words[words.index("--out") + 1]) if "--out" in words else None
        if place and place.exists() and not ("--resume" in words and place in written):
            remove(place)  # the house's own, or of a command to which this is an alternative
        written |= {place} if place else set()
        if words[0] == "serve":
            path = os.pathsep.join(sys.path)
            serve(house, [sys.executable, "-m", "equipoise", *words], {**os.environ, "PYTHONPATH": path})
            continue
        as_json = block.page == "--help" and hasattr(build_parser().parse_args(words), "json")
        code, out, err = run([*words, "--json"] if as_json else words)
        if command.said:
            assert (code, command.said in err) == (2, True), f"{command}\n{err}"
        else:
            assert code == 0 or any(end in err for end in ENDS), f"{command}\n{words}\n{err}"
            if code and place and (prototype / place).is_dir() and not place.exists():
                shutil.copytree(prototype / place, place)  # what comes after needs what a longer run leaves
            assert not as_json or code or len(json.loads(out)) > 1, f"{command} hands no numbers over"


@pytest.mark.parametrize("snippet", marked(snippets()))
def test_python_runs_as_it_is_written(
    snippet: Snippet, house: Path, prototype: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why := reason(str(snippet)):
        pytest.skip(why)
    if peer := PEERS.get(str(snippet)):
        make_torchvision_importable()
        pytest.importorskip(peer, reason=f"{peer} is not installed: {snippet} is NOT run")
    before, text = BEFORE.get(str(snippet), ""), spelled(snippet.text)
    furnish(house, prototype, f"{before}\n{text}")
    if before:
        assert run(before.split()[1:])[0] == 0
        make_torchvision_importable()
    module = types.ModuleType("snippet")
    monkeypatch.setitem(sys.modules, "snippet", module)
    for source, refusal in statements(text):
        try:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                exec(source, vars(module))
        except UserError as error:
            said = refusal.removeprefix(":").partition(";")[0].strip()
            if not refusal or not any(end in str(error) for end in (said, *ENDS)):
                raise


def test_the_list_of_what_is_not_run_becomes_shorter() -> None:
    assert len(NOT_RUN) <= MOST_NOT_RUN
    everything = [command.text for block in blocks() for command in block.commands] + [str(one) for one in snippets()]
    for part in NOT_RUN:
        assert any(part in text for text in everything), f"{part} is on no page any more; take it from NOT_RUN"


@pytest.mark.parametrize("figure", figures(), ids=str)
def test_a_figure_has_the_command_that_makes_it_beside_it_and_that_is_run(figure: Block) -> None:
    ours = [one for one in figure.commands if one.text.startswith("equipoise") and not reason(one.text)]
    benches = {Path(word).stem for one in figure.commands for word in one.words if word.startswith("benchmarks/")}
    assert ours or benches & {*SMALLEST, *ELSEWHERE}, f"{figure} has no command beside it that a test runs"


def test_every_command_of_the_pages_parses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_folder, "find_spec", str)  # that s3fs is lacking is told before a command begins
    parser = build_parser()
    for command in (command for block in blocks() + within_text() for command in block.commands):
        if command.text.startswith("equipoise") and "[" not in command.text.split("--set")[0]:
            words = Command(command.page, command.text.replace("$NOISE", "")).words[1:]
            try:
                with redirect_stderr(io.StringIO()) as err:
                    parser.parse_args(words)
            except SystemExit:
                pytest.fail(f"{command}: {err.getvalue()}")
