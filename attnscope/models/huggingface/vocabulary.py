"""A foreign model's own tokenizer, read as ours are: pieces, places in the text, special tokens.

tokenizer.json is read by the `tokenizers` library alone. Where there is none, `transformers` builds the
same kind of tokenizer from the older files (vocab.txt, merges.txt, a sentencepiece model). Which special
tokens stand around a text, or two, is asked of the tokenizer's own template.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer

from attnscope.errors import LoadError
from attnscope.records.tokens import Token, Tokens
from attnscope.text.cleaning import clean_text
from attnscope.text.guarding import library_errors, without_panic_words
from attnscope.text.inspection import check_vocabulary, require_no_growth, require_sane_count
from attnscope.text.vocabulary import Entry, Vocabulary, place_tokens

_TEXT_FAILED = "The tokenizer cannot read this text"
_TEXT_ACTION = "Change the text, or load another tokenizer."
_PROBE = "The 1st café, 漢字 – «x» 😀.\n  aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa! "
_MASKS = ("<mask>", "[MASK]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """Ids that stand before, between and after texts, and which segment each text belongs to."""

    prefix: tuple[int, ...] = ()
    middle: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    pair_suffix: tuple[int, ...] = ()
    second_segment: int = 0
    middle_segments: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """Tokens with the special ones around them, and the segment of each (0, or 1 in a second text)."""

    tokens: Tokens
    segments: tuple[int, ...]


class HuggingFaceVocabulary:
    """Text to tokens and back with the tokenizer that came with a model."""

    def __init__(
        self,
        library: LibraryTokenizer,
        roles: dict[str, int] | None = None,
        *,
        source: LibraryTokenizer | None = None,
        target: LibraryTokenizer | None = None,
    ) -> None:
        """Wrap a tokenizer; `roles` are ids by role that the model's files name.

        A model of two languages may read its source and its target with a tokenizer each, which give the
        same ids. Raises LoadError when it cannot be used.
        """
        self._library = library
        self._readers = {False: source or library, True: target or library}
        for reader in self._readers.values():
            require_no_growth(reader)
            if reader is not library:
                check_vocabulary(reader)
            if reader.truncation is not None:  # a shared one is not changed while others read with it
                reader.no_truncation()
            if reader.padding is not None:
                reader.no_padding()
        self._entries = Vocabulary(library)
        self._entries.roles.update(roles or {})
        self._entries.specials |= frozenset((roles or {}).values())
        self.kind: str = self._entries.kind
        self.size: int = self._entries.size
        self._foreign_masks = self._build_mask_pattern()
        self.template = self._read_template()
        self._encode(_PROBE)
        self.decode(range(min(self.size, 300)))

    # -- the roles --------------------------------------------------------------------------------

    @property
    def entries(self) -> Vocabulary:
        """The vocabulary as people read it."""
        return self._entries

    def has(self, role: str) -> bool:
        return role in self._entries.roles

    @property
    def begin_id(self) -> int:
        return self._entries.role("begin")

    @property
    def end_id(self) -> int:
        return self._entries.role("end")

    @property
    def mask_id(self) -> int:
        return self._entries.role("mask")

    def id_of(self, entry: str) -> int | None:
        """The id of an entry as the vocabulary writes it; None when it has none."""
        id: int | None = self._library.token_to_id(entry)
        return id

    def token(self, id: int) -> Token:
        return self._entries.token(id)

    def decode(self, ids: Iterable[int]) -> str:
        return self._entries.decode(ids)

    # -- text to tokens ---------------------------------------------------------------------------

    def encode(
        self,
        text: str,
        *,
        max_tokens: int,
        prefix: Sequence[int] | None = None,
        suffix: Sequence[int] | None = None,
        is_target: bool = False,
    ) -> Encoded:
        """One text with the special tokens the model expects, or with others, cut to `max_tokens`.

        Special tokens written out in the text are read as such, as the model's own library does.
        """
        before = self.template.prefix if prefix is None else tuple(prefix)
        after = self.template.suffix if suffix is None else tuple(suffix)
        body = self._encode(text, is_target=is_target)
        n_free = max(0, max_tokens - len(before) - len(after))
        kept = self._cut(body, n_free)
        whole = self._wrapped(before, kept.tokens, after)
        return Encoded(tokens=replace(kept, tokens=whole), segments=(0,) * len(whole))

    def encode_pair(self, first: str, second: str, *, max_tokens: int) -> Encoded:
        """Two texts in one input, as the template joins them; the longer is cut first, as in `tokenizers`."""
        template = self.template
        one, two = self._encode(first), self._encode(second)
        around = len(template.prefix) + len(template.middle) + len(template.pair_suffix)
        n_free = max(0, max_tokens - around)
        n_second = min(len(two), max(n_free - len(one), (n_free + (len(one) <= len(two))) // 2))
        one, two = self._cut(one, n_free - n_second), self._cut(two, n_second)
        shift = len(one.text) + 1
        moved = tuple(
            replace(token, start=token.start + shift, end=token.end + shift) for token in two.tokens
        )
        left = self._wrapped(template.prefix, one.tokens, template.middle)
        right = self._wrapped((), moved, template.pair_suffix)
        n_left = len(left) - len(template.middle)
        tokens = Tokens(
            text=f"{one.text}\n{two.text}",
            tokens=left + right,
            n_dropped=one.n_dropped + two.n_dropped,
            n_unknown=one.n_unknown + two.n_unknown,
            n_replaced=one.n_replaced + two.n_replaced,
            n_cut=one.n_cut + two.n_cut,
        )
        segments = (0,) * n_left + template.middle_segments + (template.second_segment,) * len(right)
        return Encoded(tokens=tokens, segments=segments)

    def _wrapped(
        self, before: Sequence[int], body: tuple[Token, ...], after: Sequence[int]
    ) -> tuple[Token, ...]:
        first = tuple(self.token(id) for id in before)
        return (*first, *body, *(self.token(id) for id in after))

    def _cut(self, tokens: Tokens, n_free: int) -> Tokens:
        n_dropped = max(0, len(tokens) - n_free)
        kept = tokens.tokens[:n_free]
        unknown = self._entries.roles.get("unknown")
        n_unknown = sum(token.id == unknown for token in kept)
        return replace(tokens, tokens=kept, n_dropped=n_dropped, n_unknown=n_unknown)

    def _encode(self, text: str, *, is_target: bool = False) -> Tokens:
        """The tokens of a cleaned text, none cut and nothing around them."""
        clean = clean_text(text)
        own, places = self._with_own_mask(clean.text)
        with library_errors(_TEXT_FAILED, action=_TEXT_ACTION):
            with without_panic_words():
                found = self._readers[is_target].encode(own, add_special_tokens=False)
            require_sane_count(len(found), len(own))
            entries: list[Entry] = [
                (id, places(start), places(end))
                for id, (start, end) in zip(found.ids, found.offsets, strict=True)
            ]
        tokens = place_tokens(clean.text, entries, self._entries)
        return Tokens(text=clean.text, tokens=tuple(tokens), n_replaced=clean.n_replaced, n_cut=clean.n_cut)

    # -- the mask, however it is written ----------------------------------------------------------

    def _build_mask_pattern(self) -> re.Pattern[str] | None:
        mask = self._entries.roles.get("mask")
        if mask is None:
            return None
        self._mask_literal = self._library.id_to_token(mask) or ""
        others = [literal for literal in _MASKS if literal != self._mask_literal]
        return re.compile("|".join(map(re.escape, others))) if others and self._mask_literal else None

    def _with_own_mask(self, text: str) -> tuple[str, "_Places"]:
        """The text with `<mask>` and `[MASK]` spelled as this vocabulary does, and the way back."""
        places = _Places()
        if self._foreign_masks is None:
            return text, places
        parts: list[str] = []
        position = 0
        for match in self._foreign_masks.finditer(text):
            parts += [text[position : match.start()], self._mask_literal]
            position = match.end()
            places.add(match.start(), match.end(), len(self._mask_literal))
        return "".join([*parts, text[position:]]), places

    # -- the template -----------------------------------------------------------------------------

    def _read_template(self) -> Template:
        with library_errors("The tokenizer's template is not usable", action="Load another tokenizer."):
            single = self._readers[False].encode("a")
            double = self._readers[False].encode("a", "a")
        prefix, body, suffix = _around(single)
        middle, second, pair_suffix = _middle(double, len(prefix) + len(body))
        types = double.type_ids
        n_left = len(prefix) + len(body)
        return Template(
            prefix=tuple(prefix),
            suffix=tuple(suffix),
            middle=tuple(middle),
            pair_suffix=tuple(pair_suffix),
            second_segment=max(types[n_left + len(middle) :], default=0) if second else 0,
            middle_segments=tuple(types[n_left : n_left + len(middle)]),
        )


class _Places:
    """From places in a text with other mask spellings back to the text as it was typed."""

    def __init__(self) -> None:
        self._changes: list[tuple[int, int, int, int]] = []
        self._shift = 0

    def add(self, start: int, end: int, n_new: int) -> None:
        """Characters start…end became `n_new` others."""
        self._changes.append((start + self._shift, start + self._shift + n_new, start, end))
        self._shift += n_new - (end - start)

    def __call__(self, place: int) -> int:
        shift = 0
        for new_start, new_end, start, end in self._changes:
            if place <= new_start:
                break
            if place < new_end:
                return start
            shift = end - new_end
        return place + shift


def _around(found: Any) -> tuple[list[int], list[int], list[int]]:
    """Special ids before, the text's ids, special ids after."""
    marks = found.special_tokens_mask
    first = next((i for i, mark in enumerate(marks) if not mark), len(marks))
    last = next((i for i, mark in enumerate(reversed(marks)) if not mark), 0)
    end = len(marks) - last if first < len(marks) else first
    return found.ids[:first], found.ids[first:end], found.ids[end:]


def _middle(found: Any, n_left: int) -> tuple[list[int], list[int], list[int]]:
    """What stands between two texts, the second one's ids, and what stands after it."""
    marks, ids = found.special_tokens_mask[n_left:], found.ids[n_left:]
    first = next((i for i, mark in enumerate(marks) if not mark), len(marks))
    last = next((i for i, mark in enumerate(reversed(marks)) if not mark), 0)
    end = max(first, len(marks) - last)
    return ids[:first], ids[first:end], ids[end:]


def check_ids(vocabulary: HuggingFaceVocabulary, n_rows: int, where: str) -> None:
    """Raise LoadError when the tokenizer has ids that the embedding, of `n_rows`, lacks."""
    if vocabulary.size <= n_rows:
        return
    raise LoadError(
        f"The tokenizer in {where} has ids up to {vocabulary.size - 1} but the embedding has {n_rows} rows.",
        kind="vocabulary",
        expected=f"ids below {n_rows}",
        action="Load the tokenizer saved next to the model.",
    )
