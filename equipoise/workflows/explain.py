"""`equipoise explain`: what the similarity of a picture and a text rests on, drawn; or how well methods find it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from equipoise.analysis.explain import AUTO, METHODS, explain
from equipoise.analysis.explain.parts import largest_parts
from equipoise.analysis.explain.picture import write_picture
from equipoise.analysis.explain.relevance import allowed_methods, chosen_method, require_words
from equipoise.analysis.explain.scoring.scenes import questions
from equipoise.analysis.explain.scoring.score import RANDOM, Scored, score_method, score_tokens
from equipoise.evaluation.metrics import percent
from equipoise.io.atomic import write_text
from equipoise.io.numbers import as_json, hand_over
from equipoise.io.tables import make_table, print_tables
from equipoise.models.explanation import Explanation
from equipoise.training.device import torch_device
from equipoise.types import UserError
from equipoise.workflows.load import build_model, load, load_with_settings
from equipoise.workflows.subject import Subject

ALL = "all"
UNTRAINED = "untrained"
PARTS = 4  # of a similarity that are drawn


def explain_pair(path: Path | str, image: Path, text: str, method: str, part: str, out: Path) -> list[Explanation]:
    """Explain one pair, print its words, write a picture and JSON."""
    wanted = read_part(part)
    if method not in (AUTO, *METHODS):
        raise UserError(f"there is no method {method!r} of explanation; choose one of {AUTO}, {', '.join(METHODS)}")
    model = load(path, "auto")
    require_words(model)
    parts = [(), *largest_parts(model, image, text, PARTS)] if wanted is None else [wanted]
    found = [explain(model, image, text, method, one) for one in parts]
    _print_words(found)
    if wanted is None and len(found) == 1:
        print("No code is active in both the picture and the text, so there is no part to draw.")
    tables = [one.as_table() for one in found]
    record = {"model": str(path), "image": str(image), **tables[0], **({"parts": tables[1:]} if tables[1:] else {})}
    hand_over({**record, "folder": str(out)})
    write_text(out / "explanation.json", as_json(record) + "\n")
    write_picture(out / "explanation.png", image, model.preprocess.resize, found)
    print(f"\nThe picture is {out / 'explanation.png'}, the numbers are in explanation.json")
    return found


def read_part(part: str) -> tuple[int, ...] | None:
    """The numbers of "3" or "3,5"; None: all parts."""
    if part == ALL:
        return None
    try:
        return tuple(int(number) for number in part.split(",")) if part else ()
    except ValueError:
        raise UserError(f'--part must be a number, two with a comma between them, or "{ALL}", not {part!r}') from None


def _print_words(found: Sequence[Explanation]) -> None:
    whole = found[0]
    print(f"The similarity is {whole.similarity:.3f}; relevance of words by {whole.method}:")
    columns = ["whole" if not one.part else ", ".join(map(str, one.part)) for one in found]
    rows = [
        (word.text, *(percent(one.words[number].relevance) for one in found)) for number, word in enumerate(whole.words)
    ]
    print_tables(make_table(("word", *columns), rows))
    row, column = divmod(int(whole.places.argmax()), len(whole.places))
    side = len(whole.places)
    if whole.places.max() > 0:
        print(
            f"The most relevant place of the picture is in row {row + 1} and column {column + 1} of {side}, "
            f"with {percent(float(whole.places.max()))} of all relevance (evenly spread: {percent(1 / side**2)})."
        )
    else:
        print(f"{whole.method} finds no place of the picture relevant; try another --method")


def score_explanations(subject: Subject, method: str, pairs: int, out: Path | None) -> list[Scored]:
    """Score methods on scenes, beside chance and an untrained model; print, and write JSON to `out` if there is one."""
    if pairs < 1:
        raise UserError(f"--pairs must be at least 1, not {pairs}")
    source = subject.source()
    asked = questions(source, pairs)
    model, loaded = load_with_settings(subject.path, torch_device("auto"))
    require_words(model)
    names = allowed_methods(model) if method == AUTO else [chosen_method(model, method)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(subject.seed)
        untrained = build_model(loaded.run, model.tokenizer).to(model.device).eval()
    found = {one: score_method(model, source, asked, one, subject.seed) for one in (*names, RANDOM)}
    found[UNTRAINED] = score_method(untrained, source, asked, names[0], subject.seed)
    tokens = {
        name: score_tokens(one, source, asked, names[0], subject.seed)
        for name, one in (("model", model), (UNTRAINED, untrained))
    }
    _print_scores(found, len(asked), names[0])
    _print_tokens(tokens)
    record: dict[str, Any] = {
        **subject.facts(),
        "pairs": len(asked),
        "found": {name: asdict(one) for name, one in found.items()},
        **({"class_tokens": tokens} if tokens["model"] else {}),
    }
    hand_over(record)
    if out is not None:
        write_text(out / "explain.json", as_json(record) + "\n")
        print(f"\nThe results are in {out / 'explain.json'}")
    return list(found.values())


def _print_scores(found: dict[str, Scored], pairs: int, first: str) -> None:
    names = {name: f"untrained, {first}" if name == UNTRAINED else name for name in found}
    places = [
        (
            names[name],
            *map(percent, (one.pointing, one.pointing_other, one.energy)),
            *map("{:.3f}".format, (one.deletion, one.insertion)),
        )
        for name, one in found.items()
    ]
    words = [
        (
            names[name],
            *map(percent, (one.word_hits, one.word_energy)),
            f"{one.word_drop:.3f}",
            "" if name == RANDOM else f"{one.milliseconds:.1f}",
        )
        for name, one in found.items()
    ]
    title = f"{pairs:,} named things in pictures of several; random is what guessing scores"
    print_tables(make_table(("places", "pointing", "wrong name", "energy", "delete", "insert"), places, title=title))
    print_tables(make_table(("words", "hits", "energy", "drop", "ms a pair"), words))


def _print_tokens(tokens: dict[str, dict[str, float]]) -> None:
    if not tokens["model"]:
        return
    mine, untrained = tokens["model"], tokens[UNTRAINED]
    print(
        f"Class tokens: decoupling {mine['decoupling']:.3f} (untrained {untrained['decoupling']:.3f}, random maps "
        f"{mine['decoupling_random']:.3f}); pointing of each: "
        + ", ".join(percent(value) for name, value in mine.items() if name.startswith("pointing_token_"))
    )
