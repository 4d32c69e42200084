"""Keyed random numbers: their values as they have always been, since runs, splits and the corpus rest on them."""

from __future__ import annotations

import torch

from equipoise.data.files.records import held_out
from equipoise.data.rng import generator, keyed_int, python_random
from equipoise.data.scenes.world import split_of
from equipoise.data.side_data import fingerprints


def test_generators_start_where_they_always_did() -> None:
    assert generator(0, "order", 1).initial_seed() == 7021862330116196507
    assert generator(7, "crop", 123456).initial_seed() == 9006073688743744040
    assert generator("a'b", 2**63 - 1).initial_seed() == 4680419758485367480
    drawn = torch.randint(2**62, (2,), generator=generator(3, "x", 0)).tolist()
    assert drawn == [2967763580122732026, 2927968715679512466]


def test_pythons_generators_start_where_they_always_did() -> None:
    assert python_random(0, "train", 5, "scene").getrandbits(64) == 1113247271470173543
    assert python_random("é", 1).random() == 0.6036970826508078


def test_choices_by_name_are_what_they_always_were() -> None:
    class Keys:
        def __len__(self) -> int:
            return 12

        def key(self, index: int) -> str:
            return f"{index:05d}" if index else "\udc80"  # a name that is not UTF-8

    assert held_out(Keys(), 0.3).nonzero()[0].tolist() == [0, 2, 4, 5, 7, 9]  # type: ignore[arg-type]
    assert split_of((("fish", "red", "plain", "small"),)) == "train"
    assert split_of((("star", "blue", "striped", "large"),)) == "test"


def test_few_records_leave_something_on_both_sides() -> None:
    """Chance alone would hold out none of 20 records at 20% once in 87 times, and such a table was refused."""

    class Keys:
        def __init__(self, *numbers: int):
            self.numbers = numbers

        def __len__(self) -> int:
            return len(self.numbers)

        def key(self, index: int) -> str:
            return str(self.numbers[index])

    def chosen(numbers: tuple[int, ...], share: float) -> list[int]:
        return held_out(Keys(*numbers), share).nonzero()[0].tolist()  # type: ignore[arg-type]

    drawn = [keyed_int(str(number)) for number in range(200)]
    kept = tuple(number for number in range(200) if drawn[number] >= 0.2 * 2**64)
    away = tuple(number for number in range(200) if drawn[number] < 0.2 * 2**64)
    assert [kept[index] for index in chosen(kept, 0.2)] == [min(kept, key=drawn.__getitem__)]
    assert [away[index] for index in range(len(away)) if index not in chosen(away, 0.2)] == [
        max(away, key=drawn.__getitem__)
    ]
    assert [chosen(kept, 0), chosen(kept[:1], 0.2), chosen(away[:1], 0.2), chosen((), 0.2)] == [[], [], [0], []]


def test_fingerprints_are_what_they_always_were() -> None:
    numbers = [5279070759330648859, -1970711489451281740, -3811523526868657873]
    assert fingerprints(["a red fish", "", "é"]).tolist() == numbers
    assert [keyed_int(text, signed=True) for text in ("a red fish", b"", "é")] == numbers


def test_generators_are_fixed_by_their_keys_and_differ_otherwise() -> None:
    keys = [(0, "order", 1), (0, "order", 2), (0, "crop", 1), (1, "order", 1), (0, "order", 11)]
    draws = [tuple(torch.rand(4, generator=generator(*key)).tolist()) for key in keys]
    assert len(set(draws)) == len(set(keys))
    for key, draw in zip(keys, draws, strict=True):
        assert tuple(torch.rand(4, generator=generator(*key)).tolist()) == draw
        assert python_random(*key).random() == python_random(*key).random()
