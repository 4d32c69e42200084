"""Making tokenizers: learned from captions, or read from the files others publish.

CLIP's scheme: lower-cased text cut into words, each word into bytes, the last of which is marked as the word's end;
byte pairs are merged in the order learned. BERT's: lower-cased words cut greedily into the longest known pieces.

The trainers of `tokenizers` number the alphabet in the order of a randomised hash table and break ties by that number,
so two runs on the same captions disagree. We number the alphabet ourselves, before training: then nothing is left to
chance. CLIP's order is kept (bytes, bytes that end a word, merges, start, end), so the end token has the highest id.

This module needs `tokenizers`; `tokenizer.py` imports it when the first tokenizer is made.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from equipoise.types import UserError

START, END = "<|startoftext|>", "<|endoftext|>"
PAD, UNKNOWN, CLASS, SEPARATOR, MASK = BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORD_END = "</w>"
CONTINUED = "##"
CLIP_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())  # each byte as a printable character, in CLIP's order
CLIP_ALPHABET = [*BYTES, *(byte + WORD_END for byte in BYTES)]


def train_bpe(captions: Iterable[str], vocabulary: int) -> Tokenizer:
    """A byte-pair tokenizer like CLIP's, of at most `vocabulary` tokens."""
    specials = (START, END)
    _check_room(vocabulary, len(CLIP_ALPHABET) + len(specials), "the bytes, the start and the end token")
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(specials),
        special_tokens=CLIP_ALPHABET,  # only to fix their numbers
        end_of_word_suffix=WORD_END,
        min_frequency=2,
        show_progress=False,
    )
    trained = _train_on_words(_count_words(_clip_like(models.BPE()), captions), models.BPE(), trainer)
    merges = [(left, right) for left, right in json.loads(trained.to_str())["model"]["merges"]]
    return clip_tokenizer(*clip_pieces(merges))


def train_wordpiece(captions: Iterable[str], vocabulary: int) -> Tokenizer:
    """A WordPiece tokenizer like BERT's, of at most `vocabulary` tokens."""
    words = _count_words(_bert_like(models.WordPiece(), lowercase=True), captions)
    letters = Counter[str]()
    for word, count in words.items():
        for letter in _letters(word):
            letters[letter] += count
    # the many letters of large scripts must leave room for words; what has a letter left out becomes unknown
    alphabet = sorted(letters, key=lambda letter: (-letters[letter], letter))[: vocabulary // 2]
    _check_room(vocabulary, len(BERT_SPECIALS) + len(alphabet), "the special tokens and the letters")
    known = set(alphabet)
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary,
        special_tokens=[*BERT_SPECIALS, *alphabet],  # the letters only to fix their numbers
        continuing_subword_prefix=CONTINUED,
        min_frequency=2,
        show_progress=False,
    )
    words = Counter({word: count for word, count in words.items() if known.issuperset(_letters(word))})
    return bert_tokenizer(_train_on_words(words, models.WordPiece(), trainer).get_vocab())


def clip_pieces(merges: Sequence[tuple[str, str]]) -> tuple[dict[str, int], Sequence[tuple[str, str]]]:
    """The numbers of the pieces that merges make, in CLIP's order; and the merges, for `clip_tokenizer`."""
    pieces = [*CLIP_ALPHABET, *(left + right for left, right in merges), START, END]
    return {piece: number for number, piece in enumerate(pieces)}, merges


def clip_tokenizer(pieces: dict[str, int], merges: Sequence[tuple[str, str]]) -> Tokenizer:
    """CLIP's tokenizer from the contents of its vocab.json and merges.txt."""
    tokenizer = _clip_like(models.BPE(pieces, list(merges), end_of_word_suffix=WORD_END))
    tokenizer.add_special_tokens([START, END])
    wrap(tokenizer, START, END)
    return tokenizer


def bert_tokenizer(pieces: dict[str, int]) -> Tokenizer:
    """BERT's tokenizer from its vocabulary; one that has capital letters keeps case, as cased BERTs do."""
    lowercase = all(piece == piece.lower() for piece in pieces if piece not in BERT_SPECIALS)
    model = models.WordPiece(pieces, unk_token=UNKNOWN, continuing_subword_prefix=CONTINUED)
    tokenizer = _bert_like(model, lowercase)
    tokenizer.add_special_tokens([special for special in BERT_SPECIALS if special in pieces])
    wrap(tokenizer, CLASS, SEPARATOR)
    return tokenizer


def canonicalise(tokenizer: Tokenizer) -> None:
    """Lets the tokenizer drop case, punctuation and doubled spaces first, as SigLIP's texts were prepared."""
    marks = "[" + re.escape(string.punctuation.replace("_", "")) + "]"
    steps = [normalizers.Replace("_", " "), normalizers.Replace(Regex(marks), ""), normalizers.Lowercase()]
    steps += [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    own = [] if tokenizer.normalizer is None else [tokenizer.normalizer]
    tokenizer.normalizer = normalizers.Sequence([*steps, *own])


def only_end(tokenizer: Tokenizer) -> int | None:
    """The id put after every text, where that is all that is added to it."""
    added, text = tokenizer.encode("").ids, tokenizer.encode("a").ids
    return added[0] if len(added) == 1 and text[-1:] == added else None


def start_and_end(tokenizer: Tokenizer) -> tuple[int, int]:
    """The ids put before and after every text; CLIP's are added to a tokenizer that has none."""
    if len(tokenizer.encode("").ids) != 2:
        tokenizer.add_special_tokens([START, END])
        wrap(tokenizer, START, END)
    start, end = tokenizer.encode("").ids
    return start, end


def wrap(tokenizer: Tokenizer, start: str, end: str) -> None:
    """Lets the tokenizer put `start` before and `end` after every text."""
    numbered = [(special, tokenizer.token_to_id(special)) for special in (start, end)]
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{start} $A {end}", special_tokens=numbered)


def _clip_like(model: models.Model) -> Tokenizer:
    tokenizer = Tokenizer(model)
    straight_quotes = [  # CLIP was trained on text whose quotes had been straightened
        normalizers.Replace(Regex("[\u02bc\u2018-\u201b]"), "'"),
        normalizers.Replace(Regex("[\u201c-\u201f]"), '"'),
    ]
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), *straight_quotes, normalizers.Lowercase()])
    words = pre_tokenizers.Split(Regex(CLIP_WORDS), behavior="removed", invert=True)
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, to_bytes])
    return tokenizer


def _bert_like(model: models.Model, lowercase: bool) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _count_words(tokenizer: Tokenizer, captions: Iterable[str]) -> Counter[str]:
    """How often each word occurs, as the tokenizer normalises text and cuts it into words."""
    chunks = Counter[str]()
    for caption in captions:
        chunks.update(caption.split())  # no word spans a space, so the tokenizer need see each chunk only once
    words = Counter[str]()
    for chunk, count in chunks.items():
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(chunk)):
            words[word] += count
    if not words:
        raise UserError("There are no words to learn a vocabulary from; check that the data has captions.")
    return words


def _train_on_words(words: Counter[str], model: models.Model, trainer: trainers.Trainer) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator((" ".join(repeat(word, count)) for word, count in words.items()), trainer)
    return tokenizer


def _letters(word: str) -> Iterator[str]:
    """The smallest pieces of a word: its first letter, then letters marked as continuing it."""
    return (letter if place == 0 else CONTINUED + letter for place, letter in enumerate(word))


def _check_room(vocabulary: int, needed: int, what: str) -> None:
    if vocabulary <= needed:
        raise UserError(f"tokens.vocabulary is {vocabulary}, but {what} alone take {needed}; make it larger.")
