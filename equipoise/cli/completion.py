"""`equipoise completion SHELL`: a script that completes commands, options, their choices and recipes, made from the
parser. It is text alone: completing starts no Python.

    eval "$(equipoise completion bash)"        in ~/.bashrc
    eval "$(equipoise completion zsh)"         in ~/.zshrc, after compinit
    equipoise completion fish | source         in ~/.config/fish/config.fish
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from shlex import quote

EXAMPLE = "bash"
SHELLS = ("bash", "zsh", "fish")
NAMES_RECIPES = ("RECIPE", "DATA")  # arguments that may be a recipe's name


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="whose script to print; see docs/commands.md for where it goes")


def run(options: argparse.Namespace) -> None:
    from equipoise.cli.parser import build_parser
    from equipoise.settings.recipe import built_in_files

    places = list(completions(build_parser(), tuple(built_in_files())))
    print({"bash": bash, "zsh": zsh, "fish": fish}[options.shell](places))


@dataclass(frozen=True)
class Place:
    """What may be typed behind a command, or behind an option of it that takes a value."""

    words: tuple[str, ...]  # the command so far, without `equipoise`
    after: str  # the option; "" for what stands on its own
    choices: tuple[str, ...]  # none where a file or anything else may follow


def completions(
    parser: argparse.ArgumentParser, recipes: tuple[str, ...], words: tuple[str, ...] = ()
) -> Iterator[Place]:
    own: list[str] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            own += action.choices
            for name, inner in action.choices.items():
                yield from completions(inner, recipes, (*words, name))
            continue
        takes = tuple(map(str, action.choices or ())) or (recipes if action.metavar in NAMES_RECIPES else ())
        if not action.option_strings:
            own += takes
        elif action.nargs != 0:
            yield from (Place(words, option, takes) for option in action.option_strings)
        own += action.option_strings
    yield Place(words, "", tuple(own))


def bash(places: list[Place]) -> str:
    """Files are completed too, but where an option is being typed or one of a few words is asked for."""
    cases = "\n".join(f"    {quote(_key(place))}) echo {quote(' '.join(place.choices))};;" for place in places)
    commands = "|".join(quote(" ".join(words)) for words in _commands(places) if words)
    return f"""_equipoise_choices() {{
  case "$1" in
{cases}
    *) return 1;;
  esac
}}
_equipoise() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} at="" next choices i
  for ((i = 1; i < COMP_CWORD; i++)); do
    next="${{at:+$at }}${{COMP_WORDS[i]}}"
    case "$next" in
      {commands}) at=$next;;
    esac
  done
  choices=$(_equipoise_choices "$at|$before") || choices=$(_equipoise_choices "$at|")
  COMPREPLY=($(compgen -W "$choices" -- "$word"))
  [[ $word == -* || -z $at ]] || COMPREPLY+=($(compgen -f -- "$word"))
}}
complete -o filenames -F _equipoise equipoise"""


def zsh(places: list[Place]) -> str:
    """zsh runs bash's function."""
    return f"autoload -U +X bashcompinit && bashcompinit\n{bash(places)}"


def fish(places: list[Place]) -> str:
    lines, with_value = [], {(place.words, place.after) for place in places}
    for place in places:
        inner = [words[-1] for words in _commands(places) if words and words[:-1] == place.words]
        seen = [f"__fish_seen_subcommand_from {word}" for word in place.words]
        seen += [f"not __fish_seen_subcommand_from {' '.join(inner)}"] if inner else []
        line = f"complete -c equipoise -n {quote('; and '.join(seen) or 'true')}"
        values = quote(" ".join(choice for choice in place.choices if not choice.startswith("-")))
        if place.after:
            lines.append(f"{line} -l {place.after.lstrip('-')} -r" + (f" -a {values}" if place.choices else ""))
            continue
        lines += [f"{line} -a {values}"] if values != "''" else []
        switches = [choice for choice in place.choices if (place.words, choice) not in with_value]
        lines += [f"{line} -l {choice[2:]}" for choice in switches if choice.startswith("--")]
    return "\n".join(lines)


def _commands(places: list[Place]) -> list[tuple[str, ...]]:
    return sorted({place.words for place in places})


def _key(place: Place) -> str:
    return f"{' '.join(place.words)}|{place.after}"
