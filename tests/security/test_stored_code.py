"""Stored settings import no Python that the user did not name (S2): by every command that takes a model folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from security.hostile import COMMANDS, copied, refusal

import equipoise as eq
from equipoise.cli import main
from equipoise.types import UserError

BEFORE = Path(__file__).parent.parent / "before"
HOSTILE = "from pathlib import Path\nPath('RAN').write_text('ran')\n"
OWN = """
from dataclasses import dataclass
from equipoise.spaces.sphere import Sphere

@dataclass(frozen=True)
class MySphere(Sphere):
    pass
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which Python imports from, as `python -m` and notebooks do."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_imports_what_stored_settings_name(
    command: str, place: Path, finished_run: Path, fdt_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = f"hostile_{list(COMMANDS).index(command)}"
    (place / f"{module}.py").write_text(HOSTILE)
    (place / "shards.toml").write_text('data = {name = "shards", train = "x.tar"}\n')
    folders = {"model": finished_run, "coded": fdt_run, "run": BEFORE / "run"}
    for name, folder in folders.items():
        copied(folder, place / name, "image", f'name = "{module}:X"')
    words = COMMANDS[command].format(good=finished_run, **{name: name for name in folders}).split()
    sentence = refusal(capsys, words)
    assert not (place / "RAN").exists()
    assert module not in sys.modules
    assert f"--trust {module}" in sentence
    assert f'trust=("{module}",)' in sentence


@pytest.mark.slow
def test_loading_a_folder_that_brings_its_own_module(place: Path, finished_run: Path) -> None:
    copied(finished_run, place / "model", "image", 'name = "model.evil:X"')
    (place / "model" / "evil.py").write_text(HOSTILE)
    with pytest.raises(UserError, match=r'config\.toml:\d+: "image" is the Python code "model\.evil:X".*--trust model'):
        eq.load("model")
    assert not (place / "RAN").exists()
    program = "import equipoise as eq; eq.load('model')"  # the current folder is on the path of `python -c`
    environment = {**os.environ, "PYTHONPATH": str(Path(eq.__file__).parent.parent)}
    ended = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, env=environment, timeout=300
    )
    assert "UserError" in ended.stderr.splitlines()[-1]
    assert not (place / "RAN").exists()


@pytest.mark.parametrize("table", ["space", "objective", "data", "text", "readout"])
def test_no_part_of_a_model_imports(table: str, place: Path, finished_run: Path) -> None:
    (place / "hostile_part.py").write_text(HOSTILE)
    copied(finished_run, place / "model", table, 'name = "hostile_part:X"')
    with pytest.raises(UserError, match=f'"{table}" is the Python code'):
        eq.load("model")
    assert not (place / "RAN").exists()


def test_a_recipe_may_not_borrow_a_stored_name(place: Path, finished_run: Path) -> None:
    """Neither by extending a stored config.toml, nor by what such a file says that it extends."""
    (place / "hostile_parent.py").write_text(HOSTILE)
    copied(finished_run, place / "model", "image", 'name = "hostile_parent:X"')
    (place / "mine.toml").write_text('extends = "model/config.toml"\n')
    (place / "beside.toml").write_text('image.name = "hostile_parent:X"\n')
    (place / "config.toml").write_text('extends = "beside"\n')
    (place / "link.toml").symlink_to(place / "config.toml")
    for recipe in ("mine.toml", "config.toml", "./config.toml", "link.toml"):
        assert main(["show", recipe]) == 2
    assert not (place / "RAN").exists()


@pytest.mark.slow
def test_ones_own_class_trains_and_goes_on_where_it_is_trusted(
    place: Path, tiny_settings: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "my_lab").mkdir()
    (place / "my_lab" / "spaces.py").write_text(OWN)
    (place / "mine.toml").write_text('extends = "demo"\n[space]\nname = "my_lab.spaces:MySphere"\ndim = 16\n')
    settings = [word for text in tiny_settings for word in ("--set", text)]
    assert main(["train", "mine.toml", *settings, "--out", "run"]) == 0  # what the user names may be imported
    assert main(["train", "mine.toml", *settings, "--out", "run", "--resume"]) == 0  # and stored settings repeat it
    assert "--trust my_lab" in refusal(capsys, ["train", "--resume", "run"])
    assert main(["train", "--resume", "run", "--trust", "my_lab"]) == 0
    assert main(["eval", "run", "--trust", "my_lab.spaces"]) == 0
    assert (
        main(["eval", "run", "--set", "space.name=my_lab.spaces:MySphere"]) == 0
    )  # named by the user, and the stored settings repeat it
    assert "--trust my_lab" in refusal(capsys, ["eval", "run", "--trust", "my_la"])
    assert type(eq.load("run", trust=("my_lab",)).space).__name__ == "MySphere"
    assert type(eq.load("run", trust="my_lab").space).__name__ == "MySphere"
