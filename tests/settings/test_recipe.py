from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from equipoise.settings import recipe
from equipoise.settings.layers import LayeredTable
from equipoise.settings.recipe import builtin_recipes, header, read_recipe, read_table
from equipoise.types import UserError

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, text: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


@pytest.fixture
def built_in(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        "built_in/demo.toml", "# equipoise demo\n#   2 cores: 5 min\n\n# not header\nseed = 1\n[training]\nsteps = 10\n"
    )
    write("built_in/clip.toml", 'extends = "demo"\nseed = 2\n')
    monkeypatch.setattr(recipe, "BUILT_IN", tmp_path / "built_in")


def merged(table: LayeredTable) -> dict[str, Any]:
    """Key by key, as a plain dict, newest layer first."""
    values = {name: table[name] for name in table.names()}
    return {name: merged(table.child(name)) if isinstance(value, dict) else value for name, value in values.items()}


def refusal(*args: Any) -> str:
    with pytest.raises(UserError) as error:
        read_recipe(*args)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_extends_a_chain(write: Write) -> None:
    write("grand.toml", "seed = 1\n[training]\nsteps = 1\nrate = 1.0\n[training.schedule]\nwarmup = 1\n")
    write("parent.toml", 'extends = "grand"\ntraining.steps = 2\n')
    child = write("child.toml", 'extends = "parent.toml"\n\n[training]\nschedule.warmup = 3\n')
    table = read_recipe(child)
    assert merged(table) == {"seed": 1, "training": {"steps": 2, "rate": 1.0, "schedule": {"warmup": 3}}}
    folder = child.parent
    assert table.where("seed") == f"{folder}/grand.toml:1"
    assert table.child("training").where("steps") == f"{folder}/parent.toml:2"
    assert table.child("training").where("rate") == f"{folder}/grand.toml:4"
    assert table.child("training").child("schedule").where("warmup") == f"{child}:4"
    assert table.child("training").where("unwritten") == f"{child}:3"
    assert table.where("unwritten") == str(child)


def test_extends_a_built_in_recipe(write: Write, built_in: None) -> None:
    table = read_recipe(write("mine.toml", 'extends = "clip"\nname = "mine"\n'))
    assert merged(table) == {"seed": 2, "name": "mine", "training": {"steps": 10}}


def test_a_file_beside_comes_before_a_built_in_recipe(write: Write, built_in: None) -> None:
    write("demo.toml", "seed = 99\n")
    assert merged(read_recipe(write("mine.toml", 'extends = "demo"\n'))) == {"seed": 99}


def test_ones_own_demo_may_extend_the_built_in_demo(write: Write, built_in: None) -> None:
    table = read_recipe(write("demo.toml", 'extends = "demo"\nseed = 5\n'))
    assert merged(table) == {"seed": 5, "training": {"steps": 10}}


def test_extends_in_a_sub_folder(write: Write) -> None:
    write("base/a.toml", 'extends = "b"\n')
    write("base/b.toml", "seed = 7\n")
    assert merged(read_recipe(write("mine.toml", 'extends = "base/a"\n'))) == {"seed": 7}


def test_circles(write: Write) -> None:
    one = write("one.toml", '\nextends = "two"\n')
    two = write("two.toml", 'extends = "one"\n')
    assert refusal(one) == f"{two}:1: recipes cannot extend each other in a circle: one.toml -> two.toml -> one.toml"
    own = write("own.toml", 'extends = "own"\n')
    assert refusal(own) == f"{own}:1: recipes cannot extend each other in a circle: own.toml -> own.toml"


@pytest.mark.parametrize("parent", ["3", "[]", '["demo", "clip"]', "{}"])
def test_extends_takes_one_name(write: Write, parent: str) -> None:
    path = write("mine.toml", f"# why\nextends = {parent}\n")
    assert refusal(path).startswith(f'{path}:2: "extends" must name one recipe')


def test_extends_something_unknown(write: Write, built_in: None) -> None:
    path = write("mine.toml", 'extends = "demmo"\n')
    expected = f'{path}:1: no recipe "demmo" beside this file or among the built-in ones: demo, clip'
    assert refusal(path) == expected
    for odd in ("x" * 400, "\\u0000", "", "."):  # names that no file can have
        assert f"{path}:1: no recipe" in refusal(write("mine.toml", f'extends = "{odd}"\n'))


def test_a_recipe_by_name(built_in: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()  # a run folder of the same name is not in the way
    assert merged(read_recipe("demo")) == {"seed": 1, "training": {"steps": 10}}
    nothing = 'there is no recipe "clipp", and no such file or folder; give a path, or one of: '
    assert refusal("clipp") == nothing + "clip, demo"


def test_a_path_without_suffix(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("plain", "seed = 3\n")
    monkeypatch.chdir(tmp_path)
    assert merged(read_recipe("plain")) == {"seed": 3}


def test_files_that_cannot_be_read(write: Write, tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.toml").startswith(f"{tmp_path}/none.toml: there is no such file")
    (tmp_path / "folder.toml").mkdir()
    assert (
        refusal(tmp_path / "folder.toml") == f"{tmp_path}/folder.toml: this is a folder; give the path of a .toml file"
    )
    latin = write("latin.toml", "# fine\nname = 'caf\xe9'\n".encode("latin-1"))
    assert refusal(latin) == f"{latin}:2: this is not UTF-8 text; save the file as UTF-8"
    assert "cannot be read" in refusal(write("file", "") / "below.toml")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a = 1\nb = = 2\n", 2, "Invalid value"),
        ("a = 1\na = 2\n", 2, "Cannot overwrite a value"),
        ("a = 1\n\n[b\n", 3, "Expected ']' at the end of a table declaration"),
        ("a = 1\nb = '''x\ny\n\n", 3, "Expected"),
        ("a = 1\nb", 2, "Expected '=' after a key"),
        ("[a]\n[a]\n", 2, "Cannot declare"),
        (f"a = 1\nb = {'9' * 5000}\n", 2, "Exceeds the limit"),
    ],
)
def test_invalid_toml(write: Write, text: str, line: int, message: str) -> None:
    path = write("bad.toml", text)
    found = refusal(path)
    assert found.startswith(f"{path}:{line}: not valid TOML: {message}")
    assert not re.search(r"\(at (line|end)", found)


def test_an_empty_file_and_a_byte_order_mark(write: Write) -> None:
    assert merged(read_recipe(write("empty.toml", ""))) == {}
    assert merged(read_recipe(write("bom.toml", b"\xef\xbb\xbfseed = 1\r\n"))) == {"seed": 1}


def test_set(write: Write) -> None:
    path = write("mine.toml", "[training]\nsteps = 1\nrate = 2.0\n")
    overrides = [
        "training.steps=5",
        "name=my run",
        'a."b.c"=[1, 2]',
        "on=true",
        " x = 1e-3",
        "e=",
        "eq=a=b",
        "seed=1",
        "seed=2",
    ]
    assert merged(read_recipe(path, overrides)) == {
        "training": {"steps": 5, "rate": 2.0},
        "name": "my run",
        "a": {"b.c": [1, 2]},
        "on": True,
        "x": 1e-3,
        "e": "",
        "eq": "a=b",
        "seed": 2,
    }
    table = read_recipe(path, overrides)
    assert table.child("training").where("steps") == "--set training.steps"
    assert table.child("training").where("rate") == f"{path}:3"
    assert table.where("unwritten") == str(path)


@pytest.mark.parametrize("text", ["training.steps", "", "=3", "a..b=1", "a b=1", "[a]=1", ".", "#x=1"])
def test_set_without_key_or_value(write: Write, text: str) -> None:
    assert refusal(write("mine.toml", ""), [text]).startswith(f"--set {text}: this is not of the form key=value")


def test_set_takes_one_value(write: Write) -> None:
    assert merged(read_recipe(write("mine.toml", ""), ["name=1\nseed = 2"])) == {"name": "1\nseed = 2"}


def test_set_stays_in_one_line_of_text(write: Write) -> None:
    path = write("mine.toml", "")
    assert refusal(path, ["name=\udcff"]) == r"--set name=\udcff: this is not UTF-8 text; write it in UTF-8"
    assert refusal(path, ["a\nb"]).startswith(r"--set a\nb: this is not of the form key=value")


@pytest.mark.parametrize("depth", [40, 600, 50_000])
@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ("{a = ", "}")])
def test_settings_that_are_nested_too_deep(write: Write, depth: int, opened: str, closed: str) -> None:
    value = f"{opened * depth}1{closed * depth}"
    assert refusal(write("mine.toml", ""), [f"seed={value}"]).startswith(
        "--set seed: tables and lists lie in each other"
    )
    path = write("deep.toml", f"seed = {value}\n")
    assert refusal(path).startswith(f"{path}: tables and lists lie in each other")


@pytest.mark.parametrize("depth", [40, 2000])
def test_keys_that_are_nested_too_deep(write: Write, depth: int) -> None:
    key = ".".join("a" * depth)
    path = write("deep.toml", f"{key} = 1\n")
    assert refusal(path).startswith(f"{path}: tables and lists lie in each other")
    assert "tables and lists lie in each other" in refusal(write("mine.toml", ""), [f"{key}=1"])


def test_a_chain_of_recipes_has_an_end(write: Write) -> None:
    for number in range(990):
        write(f"{number}.toml", f'extends = "{number + 1}"\n')
    last = write("990.toml", "seed = 1\n")
    assert "recipe number 33 of a chain" in refusal(last.with_name("0.toml"))
    assert merged(read_recipe(last.with_name("958.toml"))) == {"seed": 1}


def test_a_file_that_is_no_recipe_is_not_read_to_its_end(write: Write) -> None:
    assert "no recipe is" in refusal("/dev/zero")
    assert "no recipe is" in refusal(write("large.toml", "#" * 2**21))


def test_set_against_itself(write: Write) -> None:
    found = refusal(write("mine.toml", ""), ["a=1", "a.b=2"])
    assert found == '--set a.b: "a" was already set to 1; leave out one of the two'


def test_header(write: Write, built_in: None) -> None:
    assert builtin_recipes() == {"clip": "", "demo": "equipoise demo"}
    assert header("demo") == "equipoise demo\n  2 cores: 5 min"
    assert header(write("mine.toml", "\n\n#one\n#\n# two\nseed = 1\n# three\n")) == "one\n\ntwo"
    assert header(write("mine.toml", "seed = 1\n")) == ""


def test_a_stored_table_has_no_parent(write: Write) -> None:
    path = write("config.toml", 'extends = "demo"\nseed = 1\n')
    assert merged(read_table(path)) == {"extends": "demo", "seed": 1}
    with pytest.raises(UserError, match="no such file"):
        read_table(path.with_name("none.toml"))
