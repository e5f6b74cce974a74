"""Edge lists as people write them: `query key` in each line, tokens by their numbers or their texts.

    # who depends on whom
    0 1
    cat -> sat
    "3", the

A number counts tokens from 0; a token that is itself a number is written in quotation marks. A text
stands for every token and every word that reads so, and a word for all of its pieces.
"""

import re
from collections.abc import Sequence

from attnscope.counting import counted
from attnscope.errors import UserError
from attnscope.records.tokens import Token

Edge = tuple[int, int]
Ends = tuple[tuple[int, ...], tuple[int, ...]]
MAX_CHARACTERS = 2_000_000
MAX_SHOWN = 20_000
"""Characters of a list from a file that can be edited in the window."""
_MAX_TOLD = 4
_FIELD = re.compile(r'"([^"]*)"|([^\s,;"]+)')
_ARROWS = re.compile(r"\s*(?:->|→|=>)\s*")


def edges_from_text(text: str, tokens: Sequence[Token]) -> tuple[Edge, ...]:
    """The edges of a list, each once, in its order; raises UserError naming each wrong line."""
    if len(text) > MAX_CHARACTERS:
        raise UserError(
            f"The edge list has {len(text):,} characters.",
            expected=f"at most {MAX_CHARACTERS:,}",
            action="Give a mask for one text only.",
        )
    named = _named_places(tokens)
    edges: dict[Edge, None] = {}
    seen: set[Ends] = set()
    faults: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.lstrip("\ufeff").strip()
        if not line or line.startswith("#"):
            continue
        found = _ends_of(line, named, len(tokens))
        if isinstance(found, str):
            faults.append(f"line {number}: {found}")
        elif found not in seen:
            seen.add(found)
            edges |= dict.fromkeys((query, key) for query in found[0] for key in found[1])
    if faults:
        raise _refused(faults, len(tokens))
    return tuple(edges)


def _ends_of(line: str, named: dict[str, tuple[int, ...]], n_tokens: int) -> Ends | str:
    """The queries and the keys of one line, or what is wrong with it."""
    fields = [
        (quoted if quoted else plain, bool(quoted))
        for quoted, plain in _FIELD.findall(_ARROWS.sub(" ", line))
    ]
    if len(fields) != 2:
        entries = counted(len(fields), "entry", "entries")
        return f"“{line[:40]}” has {entries} instead of a query and a key"
    ends: list[tuple[int, ...]] = []
    for field, is_quoted in fields:
        if not is_quoted and re.fullmatch(r"\d{1,9}", field, re.ASCII):
            if int(field) >= n_tokens:
                return f"there is no token {field}"
            ends.append((int(field),))
            continue
        places = named.get(field) or named.get(field.casefold())
        if places is None:
            return f"no token reads “{field[:40]}”"
        ends.append(places)
    return ends[0], ends[1]


def _named_places(tokens: Sequence[Token]) -> dict[str, tuple[int, ...]]:
    """The places of every piece and every word, as written and in small letters."""
    words: list[list[int]] = []
    for place, token in enumerate(tokens):
        if words and token.joins_previous:
            words[-1].append(place)
        else:
            words.append([place])
    named: dict[str, tuple[int, ...]] = {}

    def add(name: str, places: Sequence[int]) -> None:
        for key in {name, name.casefold()}:
            named[key] = tuple(sorted({*named.get(key, ()), *places}))

    for word in words:
        add("".join(tokens[place].piece for place in word), word)
        for place in word if len(word) > 1 else ():
            add(tokens[place].piece, (place,))
    return named


def _refused(faults: list[str], n_tokens: int) -> UserError:
    more = f"; and {len(faults) - _MAX_TOLD} more" if len(faults) > _MAX_TOLD else ""
    return UserError(
        f"The edge list is not understood: {'; '.join(faults[:_MAX_TOLD])}{more}.",
        expected=f"a query and a key in each line: numbers from 0 to {n_tokens - 1}, or texts of tokens",
        action="Correct these lines.",
    )
