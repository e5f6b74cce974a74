"""Manual changes: of single heads, beyond a gate, in words and as JSON; masks drawn by the user, which say
which tokens see which in one stack, and the edge lists that hold them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscope.codec import Codec, Through
from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.outside import read_outside_text
from attnscope.records.sites import STACKS, Gates, HeadRef, Site, Stack, head_named
from attnscope.records.tokens import Token

Cells = NDArray[np.bool_]
MAX_MASK_TOKENS = 512
"""Larger masks cannot be drawn; `Model.trace(pattern=)` takes rules of any size."""
DRAWN = "drawn by hand"


@dataclass(frozen=True, slots=True, kw_only=True)
class UseMask:
    """A stack's self-attention reads its tokens under this mask instead of its own.

    `bits` are the cells of its `n_tokens` rows one after another, eight to a byte; `of_cells` and `of_rows`
    make them. `name` says where they come from.
    """

    stack: Stack
    n_tokens: int
    bits: bytes
    name: str = DRAWN

    def __post_init__(self) -> None:
        if self.stack not in STACKS or not 1 <= self.n_tokens <= MAX_MASK_TOKENS:
            raise ValueError(f"no mask of {self.n_tokens} tokens for {str(self.stack)[:20]}")
        if len(self.bits) != -(-(self.n_tokens**2) // 8):
            raise ValueError(f"{len(self.bits)} bytes are not a mask of {self.n_tokens} tokens")

    @classmethod
    def of_cells(cls, stack: Stack, cells: Cells, name: str = DRAWN) -> "UseMask":
        """The mask of a stack in which query i sees key j where `cells` [n_tokens, n_tokens] is True.

        `name` says where it comes from. Raises UserError for a size that cannot be drawn.
        """
        n_queries, n_keys = cells.shape
        if n_queries != n_keys or not 1 <= n_keys <= MAX_MASK_TOKENS:
            raise UserError(
                f"A mask of {n_queries:,} queries and {n_keys:,} keys cannot be drawn.",
                expected=f"as many queries as keys, at most {MAX_MASK_TOKENS}",
                action="Use a shorter text.",
            )
        return cls(stack=stack, n_tokens=n_keys, bits=np.packbits(cells.ravel()).tobytes(), name=name)

    @classmethod
    def of_rows(cls, stack: Stack, rows: Sequence[str], name: str = DRAWN) -> "UseMask":
        """The mask of a stack in which each query sees the keys that its text in `rows` lists: `0-3 5`.

        `name` says where it comes from. Raises ValueError naming the row that is not understood.
        """
        return cls.of_cells(stack, cells_from_rows(rows), name)

    @property
    def head(self) -> HeadRef:
        """The first head of the stack, under which lists of changes file the mask, which applies to every
        head.
        """
        return HeadRef(stack=self.stack, layer=0, head=0)

    @property
    def cells(self) -> Cells:
        """Keys each query sees, bool [n_tokens, n_tokens], read-only."""
        n = self.n_tokens
        flat = np.unpackbits(np.frombuffer(self.bits, np.uint8), count=n * n)
        cells = flat.reshape(n, n).astype(np.bool_)
        cells.flags.writeable = False
        return cells

    @property
    def n_allowed(self) -> int:
        """Number of allowed cells."""
        return int(self.cells.sum())

    @property
    def is_causal(self) -> bool:
        """Whether the stack allows no later token, whatever the cells say."""
        return self.stack == "decoder"

    @property
    def seen_sentence(self) -> str:
        """Number of allowed cells, of those that the stack can allow at all."""
        n, cells = self.n_tokens, self.cells
        if not self.is_causal:
            return f"{self.n_allowed:,} of {n * n:,} cells"
        return f"{int(np.tril(cells).sum()):,} of {n * (n + 1) // 2:,} cells"

    @property
    def sentence(self) -> str:
        """Description for the user."""
        return f"{self.stack} mask {self.name}: {self.seen_sentence}"


def blind_rows(cells: Cells, *, is_causal: bool) -> tuple[int, ...]:
    """The queries that see no key, under causality as well."""
    seen = np.tril(cells) if is_causal else cells
    return tuple(int(row) for row in np.flatnonzero(~seen.any(axis=1)))


def n_ahead(cells: Cells) -> int:
    """Number of allowed cells whose key comes after the query."""
    return int(np.triu(cells, 1).sum())


def rows_as_text(cells: Cells) -> tuple[str, ...]:
    """Each row as its allowed keys: `0-3 5`; an empty text for none."""
    return tuple(_runs(np.flatnonzero(row)) for row in cells)


def cells_from_rows(rows: Sequence[str]) -> Cells:
    """The inverse of `rows_as_text`; raises ValueError naming the invalid row."""
    n = len(rows)
    if not 1 <= n <= MAX_MASK_TOKENS:
        raise ValueError(f"a mask of {n} rows, not of 1 to {MAX_MASK_TOKENS}")
    cells = np.zeros((n, n), np.bool_)
    for i, row in enumerate(rows):
        for run in row.split():
            first, _, last = run.partition("-")
            if not (first.isdecimal() and (last or first).isdecimal()):
                raise ValueError(f"row {i} has {run[:20]!r}, which is not a key")
            start, stop = int(first), int(last or first)
            if not start <= stop < n:
                raise ValueError(f"row {i} has the keys {run[:20]}, but there are {n}")
            cells[i, start : stop + 1] = True
    return cells


def cells_from_edges(
    edges: Iterable[tuple[int, int]], n_tokens: int, *, is_symmetric: bool = False, has_loops: bool = True
) -> Cells:
    """Cells that allow the listed (query, key) and nothing else; with `has_loops` each token sees itself."""
    cells = np.eye(n_tokens, dtype=np.bool_) if has_loops else np.zeros((n_tokens, n_tokens), np.bool_)
    for query, key in edges:
        cells[query, key] = True
        if is_symmetric:
            cells[key, query] = True
    return cells


def _runs(keys: NDArray[np.int64]) -> str:
    if not len(keys):
        return ""
    parts = np.split(keys, np.flatnonzero(np.diff(keys) != 1) + 1)
    return " ".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)


def maskable_stack(sites: Sequence[Site]) -> Stack | None:
    """The stack for a drawn mask: the self-attention over the text; None if there is none.

    In a model that reads one text and writes another it is the encoder.
    """
    keys = {site.stack: site.keys for site in sites}
    if "encoder" in keys:
        return "encoder" if keys["encoder"] == "tokens" else None
    return "decoder" if "decoder" in keys and "cross" not in keys else None


Edge = tuple[int, int]
Ends = tuple[tuple[int, ...], tuple[int, ...]]
MAX_CHARACTERS = 2_000_000
MAX_SHOWN = 20_000
"""Characters of a list from a file that can be edited in the window."""
_MAX_TOLD = 4
_FIELD = re.compile(r'"([^"]*)"|([^\s,;"]+)')
_ARROWS = re.compile(r"\s*(?:->|→|=>)\s*")


def edges_from_text(text: str, tokens: Sequence[Token]) -> tuple[Edge, ...]:
    """The edges of a list, each once, in order; raises UserError naming each invalid line."""
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
    """The queries and the keys of one line, or its fault."""
    fields = [
        (quoted if quoted else plain, bool(quoted))
        for quoted, plain in _FIELD.findall(_ARROWS.sub(" ", line))
    ]
    if len(fields) != 2:
        entries = plural(len(fields), "entry", "entries")
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
    """The positions of every piece and every word, as written and in lower case."""
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


def read_edge_list(path: Path) -> str:
    """The text of an edge list; raises LoadError."""
    return read_outside_text(
        path, expected="a text file", max_bytes=4 * MAX_CHARACTERS, what=f"The edge list {path}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveEdge:
    """Query `query` of a head no longer sees key `key`; the weight goes to the other keys of the row."""

    head: HeadRef
    query: int
    key: int

    @property
    def sentence(self) -> str:
        """Description for the user."""
        return f"{self.head.label}: no edge from query {self.query} to key {self.key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeUniform:
    """A head gives every key that it may see the same weight."""

    head: HeadRef

    @property
    def sentence(self) -> str:
        """Description for the user."""
        return f"{self.head.label}: uniform weights"


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeMean:
    """A head gives every query the mean of its outputs over this text's queries.

    In a causal model that mean includes later tokens; it is an ablation, not a model that could generate.
    """

    head: HeadRef

    @property
    def sentence(self) -> str:
        """Description for the user."""
        return f"{self.head.label}: its mean output everywhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPattern:
    """A head takes the weights that `from_head` has on another text with the same number of tokens.

    `target` is the second text of that run; None lets a sequence-to-sequence model write its own.
    """

    head: HeadRef
    from_head: HeadRef
    text: str
    target: str | None = None

    @property
    def sentence(self) -> str:
        """Description for the user."""
        text = self.text if len(self.text) <= 40 else self.text[:39] + "…"
        return f"{self.head.label}: the weights of {self.from_head.label} on “{text}”"


Intervention = RemoveEdge | MakeUniform | MakeMean | CopyPattern | UseMask
Interventions = tuple[Intervention, ...]
_KINDS: dict[str, type[Intervention]] = {
    "remove-edge": RemoveEdge,
    "uniform": MakeUniform,
    "mean": MakeMean,
    "copy-pattern": CopyPattern,
    "mask": UseMask,
}


def as_interventions(given: Intervention | Sequence[Intervention], sites: tuple[Site, ...]) -> Interventions:
    """One intervention, or several, as a tuple; heads may be named in any form that `sites` allows.

    Raises UserError for anything else.
    """
    found = (given,) if isinstance(given, Intervention) else given
    if isinstance(found, str) or not isinstance(found, Sequence):
        found = (found,)
    for one in found:
        if not isinstance(one, Intervention):
            raise UserError(
                f"{str(one)[:60]!r} is not a change to a head.",
                expected=", ".join(kind.__name__ for kind in _KINDS.values()),
                action='For instance: attnscope.MakeUniform(head=HeadRef(stack="encoder", layer=0, head=1)).',
            )
    return tuple(_with_heads(one, sites) for one in found)


def _with_heads(one: Intervention, sites: tuple[Site, ...]) -> Intervention:
    """`one` with its heads as records, if they were given as texts or tuples."""
    if isinstance(one, UseMask):
        return one
    head = head_named(one.head, sites) if not isinstance(one.head, HeadRef) else one.head
    if not isinstance(one, CopyPattern):
        return replace(one, head=head)
    giver = one.from_head
    return replace(
        one, head=head, from_head=giver if isinstance(giver, HeadRef) else head_named(giver, sites)
    )


def as_python(intervention: Intervention) -> str:
    """An intervention as written in a script with `import attnscope as at`."""
    if isinstance(intervention, UseMask):
        rows = list(rows_as_text(intervention.cells))
        return f"at.UseMask.of_rows({intervention.stack!r}, {rows}, {intervention.name!r})"
    given = ((field.name, getattr(intervention, field.name)) for field in fields(intervention))
    said = [
        f"{name}={(one.stack, one.layer, one.head) if isinstance(one, HeadRef) else one!r}"
        for name, one in given
    ]
    return f"at.{type(intervention).__name__}({', '.join(said)})"


def interventions_as_json(interventions: Interventions) -> list[dict[str, object]]:
    """Every intervention as JSON."""
    names = {kind: name for name, kind in _KINDS.items()}
    return [{"kind": names[type(one)], **_CODEC.write(one)} for one in interventions]


def interventions_from_json(values: Sequence[Mapping[str, Any]]) -> Interventions:
    """The inverse of `interventions_as_json`; raises KeyError, TypeError or ValueError for anything else."""
    return tuple(_CODEC.read(_KINDS[value["kind"]], value) for value in values)


@dataclass(frozen=True, slots=True, kw_only=True)
class _WrittenMask:
    head: HeadRef
    name: str = ""
    rows: tuple[str, ...]


def _as_written(mask: UseMask) -> _WrittenMask:
    return _WrittenMask(head=mask.head, name=mask.name, rows=rows_as_text(mask.cells))


def _as_read(mask: _WrittenMask) -> UseMask:
    return UseMask.of_rows(mask.head.stack, mask.rows, mask.name[:200])


HEAD_ROWS = {
    HeadRef: "a head: [stack, layer, head]",
    tuple[HeadRef, float]: "a gate: [stack, layer, head, value]",
}
_CODEC = Codec(forms={UseMask: Through(_WrittenMask, _as_written, _as_read)}, rows=HEAD_ROWS)
HEAD_FORMS = {
    Interventions: Through(tuple[object, ...], interventions_as_json, interventions_from_json),
    Gates: Through(tuple[tuple[HeadRef, float], ...], attrgetter("values"), Gates.of),
}
"""Form of changes to heads in documents; see `Codec`."""
