from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from equipoise.citations import bibliography, parse_bibtex, references
from equipoise.types import UserError


@dataclass(frozen=True)
class Leaf:
    cites: ClassVar[tuple[str, ...]] = ("loshchilov2019adamw", "radford2021clip")


class Owner:
    cites: ClassVar[tuple[str, ...]] = ("dosovitskiy2021vit",)

    @dataclass(frozen=True)
    class Config:
        leaf: Leaf = Leaf()


@dataclass(frozen=True)
class Heir(Leaf):
    pass


@dataclass(frozen=True)
class Whole:
    cites: ClassVar[tuple[str, ...]] = ("radford2021clip",)

    size: int = 3
    part: Owner.Config = Owner.Config()
    several: tuple[Leaf, ...] = (Leaf(), Heir())


@dataclass(frozen=True)
class Depends:
    causal: bool

    @property
    def cites(self) -> tuple[str, ...]:
        return ("radford2021clip",) if self.causal else ("devlin2019bert",)


@dataclass(frozen=True)
class Wrong:
    cites: ClassVar[tuple[str, ...]] = ("nobody1999nothing",)


def keys(text: str) -> list[str]:
    return re.findall(r"@\w+\{(\w+),", text)


def test_once_each_in_order_of_appearance() -> None:
    assert keys(bibliography(Whole())) == ["radford2021clip", "dosovitskiy2021vit", "loshchilov2019adamw"]
    assert keys(bibliography(Heir(), Owner.Config())) == [
        "loshchilov2019adamw",
        "radford2021clip",
        "dosovitskiy2021vit",
    ]
    assert keys(bibliography({"a": [Leaf()]})) == ["loshchilov2019adamw", "radford2021clip"]


def test_what_is_cited_may_depend_on_the_settings() -> None:
    assert keys(bibliography(Depends(True))) == ["radford2021clip"]
    assert keys(bibliography(Depends(False))) == ["devlin2019bert"]


def test_a_class_defined_in_a_function() -> None:
    @dataclass(frozen=True)
    class Local:
        leaf: Leaf = Leaf()

    assert keys(bibliography(Local())) == ["loshchilov2019adamw", "radford2021clip"]


def test_nothing_cited() -> None:
    assert bibliography() == bibliography(3, "text", None, Whole) == ""


def test_an_unknown_key_is_named() -> None:
    with pytest.raises(UserError, match=r'Wrong cites "nobody1999nothing"'):
        bibliography(Wrong())


def test_the_references_are_well_formed() -> None:
    known = references()
    assert "radford2021clip" in known
    for key, entry in known.items():
        assert entry.startswith("@"), key
        assert entry.endswith("\n}"), key
        assert entry.count("{") == entry.count("}"), key
        for required in ("title", "author", "year"):
            assert re.search(rf"^  {required}\s+= \{{.+", entry, re.MULTILINE), (key, required)
        year = re.search(r"\d{4}", key)
        assert year, key
        assert re.search(rf"year\s+= \{{{year[0]}\}}", entry), key


def test_every_key_cited_in_the_package_is_known() -> None:
    import equipoise

    files = Path(equipoise.__file__).parent.rglob("*.py")
    cited = {key for file in files for key in re.findall(r'"([a-z]+(?:19|20)\d\d[a-z]+)"', file.read_text("utf-8"))}
    assert cited
    assert cited <= set(references())


def test_braces_inside_an_entry() -> None:
    text = "@article{a2000b,\n title = {{A} and {B}}\n}\n\ncomment\n@misc{ c2001d ,\n title={x}}\n"
    assert parse_bibtex(text) == {
        "a2000b": "@article{a2000b,\n title = {{A} and {B}}\n}",
        "c2001d": "@misc{ c2001d ,\n title={x}}",
    }


def test_a_broken_file_is_noticed() -> None:
    with pytest.raises(AssertionError, match="not closed"):
        parse_bibtex("@article{a2000b,\n title = {A}\n")
    with pytest.raises(AssertionError, match="two bibtex entries"):
        parse_bibtex("@misc{a,}\n@misc{a,}\n")
