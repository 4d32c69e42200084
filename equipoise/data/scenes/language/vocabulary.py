"""What a scene may hold and how people name it: the one place where words and pictures meet.

Each value has an id (used everywhere in the code), the words captions may use for it, and, for shapes and colours,
the abstract kinds it belongs to. Words are unique across the tables, so a caption can be read back without guessing.
"""

from __future__ import annotations

from collections.abc import Mapping

Words = tuple[str, ...]

# id -> nouns; the first is the plainest
SHAPES: Mapping[str, Words] = {
    "circle": ("circle", "disc"),
    "ring": ("ring", "hoop"),
    "square": ("square", "box"),
    "triangle": ("triangle",),
    "diamond": ("diamond", "rhombus"),
    "hexagon": ("hexagon",),
    "cross": ("cross", "plus sign"),
    "star": ("star",),
    "heart": ("heart",),
    "crescent": ("crescent", "moon"),
    "drop": ("drop", "droplet"),
    "arrow": ("arrow",),
    "fish": ("fish",),
    "tree": ("tree", "fir"),
    "flower": ("flower", "blossom"),
    "house": ("house", "hut"),
}

# id -> (adjectives, sRGB)
COLOURS: Mapping[str, tuple[Words, tuple[float, float, float]]] = {
    "red": (("red", "crimson"), (0.86, 0.12, 0.14)),
    "orange": (("orange",), (0.98, 0.55, 0.08)),
    "yellow": (("yellow",), (0.98, 0.88, 0.16)),
    "green": (("green",), (0.16, 0.66, 0.24)),
    "cyan": (("cyan", "turquoise"), (0.16, 0.80, 0.82)),
    "blue": (("blue",), (0.14, 0.30, 0.88)),
    "purple": (("purple", "violet"), (0.52, 0.18, 0.70)),
    "pink": (("pink", "rose-coloured"), (0.98, 0.56, 0.74)),
    "brown": (("brown",), (0.46, 0.28, 0.12)),
    "black": (("black",), (0.06, 0.06, 0.07)),
    "grey": (("grey", "gray"), (0.52, 0.53, 0.55)),
    "white": (("white",), (0.97, 0.97, 0.96)),
}

# id -> adjectives; a solid surface is said only in complete captions
TEXTURES: Mapping[str, Words] = {
    "solid": ("solid", "plain"),
    "striped": ("striped", "stripy"),
    "dotted": ("dotted", "spotted"),
    "outlined": ("outlined", "hollow"),
}
UNSEEN_TEXTURES: Words = ("checked", "zigzag")  # drawn only in shifted variants, never named in a caption

# id -> (adjectives, radius as a share of the image side)
SIZES: Mapping[str, tuple[Words, float]] = {
    "small": (("small", "little", "tiny"), 0.095),
    "medium": (("medium-sized",), 0.145),
    "large": (("large", "big"), 0.205),
}

# id -> phrases; the relation holds from the first thing to the second
RELATIONS: Mapping[str, Words] = {
    "left_of": ("left of", "to the left of"),
    "right_of": ("right of", "to the right of"),
    "above": ("above", "over"),
    "below": ("below", "under"),
    "inside": ("inside", "within"),
    "around": ("around", "surrounding"),
}
CONVERSE: Mapping[str, str] = {
    "left_of": "right_of", "right_of": "left_of", "above": "below",
    "below": "above", "inside": "around", "around": "inside",
}  # fmt: skip

# abstract kind of shape -> (nouns for one, members); "thing" is every shape
SHAPE_KINDS: Mapping[str, tuple[Words, frozenset[str]]] = {
    "thing": (("thing", "object"), frozenset(SHAPES)),
    "round": (("round thing",), frozenset({"circle", "ring", "drop", "flower"})),
    "angular": (("angular thing",), frozenset({"square", "triangle", "diamond", "hexagon", "cross"})),
    "living": (("living thing",), frozenset({"fish", "tree", "flower"})),
    "sky": (("thing from the sky",), frozenset({"star", "crescent", "drop"})),
}
# abstract kind of colour -> (adjectives, members)
COLOUR_KINDS: Mapping[str, tuple[Words, frozenset[str]]] = {
    "warm": (("warm-coloured",), frozenset({"red", "orange", "yellow", "pink", "brown"})),
    "cool": (("cool-coloured",), frozenset({"green", "cyan", "blue", "purple"})),
    "neutral": (("colourless",), frozenset({"black", "grey", "white"})),
}

BACKGROUNDS: Words = ("gradient", "clouds", "paper", "bands")
UNSEEN_BACKGROUNDS: Words = ("bricks", "waves")  # drawn only in shifted variants
