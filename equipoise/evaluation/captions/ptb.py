"""Tokens of captions as COCO's caption evaluation takes them: the Penn Treebank rules, and punctuation left out.

pycocoevalcap runs Stanford's PTBTokenizer 3.4.1 (`-preserveLines -lowerCase`, Java) and drops 17 tokens. What its rules
do to captions, written out:

    1. whitespace separates; the rest is cut from the left into acronyms (u.s.), abbreviations with their period (mr.),
       numbers (1,000 or 3:30), words with inner hyphens, apostrophes, & or _ (t-shirt, o'clock), runs of
       periods and of dashes, single marks
    2. n't, 's, 're, 've, 'll, 'd and 'm are tokens of their own; so are the parts of cannot, gonna, gotta, wanna, ...
    3. quotes become `` and '', brackets -lrb- -rrb- -lsb- -rsb- -lcb- -rcb-
    4. lower case; then '' ' `` ` . ? ! , : - -- ... ; are dropped. The names of brackets are not, though pycocoevalcap
       lists them: it does so in upper case

Scores depend on the tokens, so a score should say whose they are. docs/captions.md says how often these differ.
"""

from __future__ import annotations

import re

DROPPED = frozenset({"''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"})
NAMES = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-", "–": "--", "—": "--"}
ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&nbsp;": " "}
# Which quotes they become does not matter: all are dropped
QUOTES = str.maketrans({"’": "'", "‘": "`", "“": "`", "”": "`", '"': "`"})
ABBREVIATIONS = (
    "mr|mrs|ms|dr|drs|prof|gen|sen|rep|gov|lt|col|sgt|capt|cpl|pvt|maj|cmdr|rev|hon|messrs|mme|mlle|ft|mt|jr|sr|bros|"
    "esq|inc|corp|ltd|co|assn|dept|dist|est|etc|vs|ave|blvd|rd|st|ct|hwy|univ|jan|feb|mar|apr|jun|jul|aug|sept|oct|nov|"
    "dec|bhd|cie|cos|ph|alex|wm|jos|penn"
)
STATES = (  # in lower case many are words
    "Ariz|Ala|Ark|Calif|Colo|Conn|Del|Fla|Ga|Ill|Ind|Kans|Ky|La|Mass|Md|Mich|Minn|Miss|Mo|Mont|Neb|Nev|Okla|Ore|Pa|Tenn|"
    "Tex|Va|Vt|Wash|Wis|Wyo"
)
BEFORE_NUMBERS = "no|nos|fig|figs|pp|vol|op|eq|prop|ex"  # which keep their period before a number alone
SPLIT = {
    **{word: (word[:3], word[3:]) for word in ("cannot", "gonna", "gotta", "lemme", "gimme", "wanna")},
    "'tis": ("'t", "is"), "'twas": ("'t", "was"), "more'n": ("more", "'n"), "d'ye": ("d'ye",), "y'all": ("y'", "all"),
}  # fmt: skip
LETTER, ENDS = r"[^\W\d_]", r"(?![^\W_])"
CLITIC = rf"(?:'(?:s|m|d|ll|re|ve)|n't){ENDS}"
PART = rf"(?:(?!n't{ENDS})[^\W_])+"
TOKENS = re.compile(
    rf"""
    https?://[^\s"<>,;]+ | www\.[\w-]+(?:\.[\w-]+)+(?:/[^\s"<>,;]*)? | [\w.+-]{{1,64}}@[\w-]+(?:\.[\w-]+)+
  | &\#\d+; | [@\#]{LETTER}\w*
  | [:;]-?[()]
  | {CLITIC}
  | '(?:tis|twas|n'|n{ENDS}|\d\ds?{ENDS})
  | (?<![^\W_]){LETTER}(?:\.{LETTER})+(?:\.|{ENDS})
  | (?<![^\W_])(?:{ABBREVIATIONS}|(?-i:{STATES}))\.{ENDS}
  | (?<![^\W_]){LETTER}\.(?!{LETTER})
  | (?<![^\W_])(?:{BEFORE_NUMBERS})\.(?=\s*\d)
  | (?<![^\W_])[+-]?(?:\d+(?:[.,:/]\d+)+(?=[^\W\d_]|[^\w-]|$) | [.]?\d+(?![\w-]|[./]\w) | \d+(?:-\d+)+(?![\w-]))
  | (?-i:[A-Z]+&[A-Z]+){ENDS}
  | y'all | (?:o|d|l)'{PART} | {PART}(?:(?:[-./]|_+){PART})*
  | \.\.\. | -{{2,}} | [!?]{{2,}} | ``|'' | \S
    """,
    re.VERBOSE | re.IGNORECASE,
)


def ptb_tokens(caption: str) -> list[str]:
    """The tokens of a caption, without punctuation."""
    for entity, meant in ENTITIES.items():
        caption = caption.replace(entity, meant)
    found: list[str] = []
    for token in TOKENS.findall(caption.translate(QUOTES)):
        found.extend(SPLIT.get(token.lower(), (token.lower(),)))
    return [named for token in found if (named := _named(token)) not in DROPPED]


def _named(token: str) -> str:
    return "".join(NAMES.get(mark, mark) for mark in token)
