"""Sites, heads and the gates on heads.

A *site* is one attention module, named by its stack and layer. Layers and heads count from 0 and
are written `L3H5`. All sites of a stack have the same rows and columns (see below):

    stack         rows                     columns
    encoder       the text                 the text, or the slots it is projected to
    decoder       the target               the target
    cross         the second text          the first one
    pool          the summary              the text, or its sentences
    second        the second text          the second text, read by the same encoder
    back          the first text           the second one
    second-pool   the summary              the second text
    sentence      the sentences            the text
    read-in       inducing points, latents the text
    latents       the latents              the latents

What the rows and columns of a site stand for: the one place that says it.

| axis      | what it stands for                                            | how many            |
|-----------|---------------------------------------------------------------|---------------------|
| source    | the tokens of the (first) text                                | its tokens          |
| target    | the tokens of the target, or of the second text               | its tokens          |
| summary   | the one learned query of a pooling head                       | 1                   |
| sentences | the sentences of the first text                               | `Tokens.sentences`  |
| slots     | projections, inducing points, latents: no places of a text    | `Site.n_slots`      |
"""

import operator
import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Literal, get_args

from attnscope.codec import Between
from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.records.tokens import Token, Tokens

Stack = Literal[
    "encoder", "decoder", "cross", "pool", "second", "back", "second-pool", "sentence", "read-in", "latents"
]
STACKS: tuple[Stack, ...] = get_args(Stack)
KeyKind = Literal["tokens", "sentences", "slots"]
SiteKey = tuple[Stack, int]
_LABEL = re.compile(r"(?:(?P<stack>[a-z-]+)[ :])?L(?P<layer>\d{1,6})H(?P<head>\d{1,6})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One attention module of a model, in a `layer` of a `stack`.

    Its columns are not tokens where `keys` says so. It has `n_heads` heads; several share a key and value
    where there are only `n_kv_heads` of those.
    `n_slots` is the number of columns, or of rows, that are no positions in the text (the projections of
    Linformer, inducing points, latents), `slot` what one of them is called.
    `former` has the number that each head had before others of its site were removed; empty where none were.
    """

    stack: Stack
    layer: int
    n_heads: int
    n_kv_heads: int
    keys: KeyKind = "tokens"
    n_slots: int = 0
    former: tuple[int, ...] = ()
    slot: str = field(default="slot", compare=False)

    @property
    def key(self) -> SiteKey:
        """The pair (stack, layer) that names this site."""
        return (self.stack, self.layer)

    def former_label(self, head: int) -> str:
        """A head's name before others were removed, `L1H4`; empty if unchanged."""
        once = self.former[head] if head < len(self.former) else head
        return "" if once == head else f"L{self.layer}H{once}"

    @property
    def heads(self) -> tuple["HeadRef", ...]:
        """Every head of this site, in order."""
        return _heads_of(self.stack, self.layer, self.n_heads)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class HeadRef:
    """One head of one site: the number `head` in a `layer` of a `stack`, all counted from 0."""

    stack: Stack
    layer: Annotated[int, Between(0, 99_999)]
    head: Annotated[int, Between(0, 99_999)]

    @property
    def site_key(self) -> SiteKey:
        """The pair (stack, layer) of the head's site."""
        return (self.stack, self.layer)

    @property
    def label(self) -> str:
        """The head's usual name, for instance `L3H5`."""
        return f"L{self.layer}H{self.head}"


@lru_cache(maxsize=4096)  # asked for some dozen times at every key
def _heads_of(stack: Stack, layer: int, n_heads: int) -> tuple[HeadRef, ...]:
    return tuple(HeadRef(stack=stack, layer=layer, head=h) for h in range(n_heads))


SiteName = int | Site | SiteKey
"""A site as its number, as a record, or as (stack, layer)."""
HeadName = HeadRef | tuple[Stack, int, int] | tuple[SiteName, int] | str
"""A head as a record, as (stack, layer, head), as (site, head), or as people write it: `cross:L0H1`."""


@dataclass(frozen=True, slots=True)
class Gates:
    """Multipliers of head outputs before the output projection; heads not named are at 1.

    The `values` lie in 0…1: 0 removes the head, 1 leaves it unchanged. Entries at exactly 1 are never stored,
    so two equal settings compare equal.
    """

    values: tuple[tuple[HeadRef, float], ...] = ()

    @staticmethod
    def of(values: Mapping[HeadRef, float] | Iterable[tuple[HeadRef, float]]) -> "Gates":
        """Build gates from `values`, pairs of head and value; raises UserError outside 0…1."""
        pairs = dict(values)
        for head, value in pairs.items():
            if isinstance(value, str) or not 0.0 <= value <= 1.0:
                raise UserError(
                    f"The gate of {head.label} ({head.stack}) is {value}.",
                    expected="a number from 0 (head removed) to 1 (head untouched)",
                    action="Set it within that range.",
                )
        return Gates(tuple(sorted((h, float(v)) for h, v in pairs.items() if v != 1.0)))

    def value(self, head: HeadRef) -> float:
        """The gate of `head`, 1 if it was never set."""
        return dict(self.values).get(head, 1.0)

    def with_value(self, head: HeadRef, value: float) -> "Gates":
        """The same gates with that of `head` at `value`, 0…1."""
        return Gates.of({**dict(self.values), head: value})

    def off(self) -> tuple[HeadRef, ...]:
        """The heads whose gate is exactly 0."""
        return tuple(head for head, value in self.values if value == 0.0)

    def __bool__(self) -> bool:
        return bool(self.values)


NO_GATES = Gates()


def gate_note(gate: float) -> str:
    """Suffix of a head's name: empty if fully on, ` · off`, ` · gate 0.50`."""
    return "" if gate == 1 else " · off" if gate == 0 else f" · gate {gate:.2f}"


@dataclass(slots=True)
class GateTable(MutableMapping[tuple[Stack, int, int], float]):
    """Gates of one model as a writable table: `gates["encoder", 0, 3] = 0.0`.

    A head may also be named by its record, or as `gates["encoder:L0H3"]`, without the stack if there is one.

    Raises UserError for a head that the model does not have. Iterates over every head of the model.
    """

    sites: tuple[Site, ...]
    _set: dict[HeadRef, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        n_heads = sum(site.n_heads for site in self.sites)
        turned = [f"{head.stack}:{head.label}={value:g}" for head, value in self._set.items() if value != 1]
        return f"Gates of {plural(n_heads, 'head')}: {', '.join(turned) or 'all on'}"

    def frozen(self) -> Gates:
        """The current setting as an immutable record."""
        return Gates.of(self._set)

    def __getitem__(self, key: HeadName) -> float:
        return self._set.get(self._head(key), 1.0)

    def __setitem__(self, key: HeadName, value: float) -> None:
        head = self._head(key)
        Gates.of({head: value})
        self._set[head] = float(value)

    def __delitem__(self, key: HeadName) -> None:
        self._set.pop(self._head(key), None)

    def __iter__(self) -> Iterator[tuple[Stack, int, int]]:
        for site in self.sites:
            for head in site.heads:
                yield (head.stack, head.layer, head.head)

    def __len__(self) -> int:
        return sum(site.n_heads for site in self.sites)

    def _head(self, key: HeadName) -> HeadRef:
        return head_named(key, self.sites)


def is_head_label(text: str) -> bool:
    """Whether a text has the form of a head's name, whatever the model."""
    return _LABEL.fullmatch(text) is not None


def labelled_head(text: str, sites: Iterable[Site]) -> HeadRef | None:
    """The head of `sites` named by a text such as `cross:L0H1`; None if there is none."""
    try:
        return head_named(text, sites) if is_head_label(text) else None
    except UserError:
        return None


def head_named(name: HeadName, sites: Iterable[Site]) -> HeadRef:
    """The head of `sites` with this `name`; raises UserError if there is none, or more than one."""
    sites = tuple(sites)
    head = name if isinstance(name, HeadRef) else _read_head(name, sites)
    check_heads((head,), sites)
    return head


def gates_named(values: object, sites: Iterable[Site]) -> Gates:
    """Gates from a mapping of heads, named in any form, to numbers; raises UserError for anything else."""
    if not isinstance(values, Mapping):
        raise UserError(
            f"{str(values)[:60]!r} are not gates.",
            expected='a mapping of heads to numbers, such as {("encoder", 0, 1): 0.0}',
            action="Give such a mapping, or model.gates() with values set.",
        )
    sites = tuple(sites)
    return Gates.of({head_named(name, sites): value for name, value in values.items()})


def _read_head(name: object, sites: tuple[Site, ...]) -> HeadRef:
    stacks = tuple(dict.fromkeys(site.stack for site in sites))
    try:
        if isinstance(name, str):
            match = _LABEL.fullmatch(name.strip())
            assert match is not None
            named = [s for s in stacks if s == match["stack"]] if match["stack"] else list(stacks)
            (stack,) = named
            return HeadRef(stack=stack, layer=int(match["layer"]), head=int(match["head"]))
        if not isinstance(name, tuple):
            raise TypeError
        stack, layer, index = name if len(name) == 3 else (*_key_of(name[0], sites), name[1])
        return HeadRef(stack=stack, layer=operator.index(layer), head=operator.index(index))
    except (AssertionError, TypeError, ValueError, IndexError) as error:
        first = stacks[0] if stacks else "encoder"
        raise UserError(
            f"{str(name)[:60]!r} does not name one head of this model.",
            expected=f'("{first}", 0, 1), (("{first}", 0), 1) or "{first}:L0H1", of the stacks '
            f"{', '.join(stacks)}",
            action="Layers and heads count from 0; the stack may be left out of “L0H1” where there is one.",
        ) from error


def _key_of(site: object, sites: tuple[Site, ...]) -> SiteKey:
    """The key of a site named in the forms of `Trace.site`; raises TypeError, ValueError, IndexError."""
    if isinstance(site, Site):
        return site.key
    if isinstance(site, tuple):
        stack, layer = site
        return stack, layer
    return sites[operator.index(site)].key  # type: ignore[arg-type]


def check_heads(heads: Iterable[HeadRef], sites: Iterable[Site]) -> None:
    """Raise UserError unless every head exists in `sites`."""
    n_heads = {site.key: site.n_heads for site in sites}
    for head in heads:
        if not 0 <= head.head < n_heads.get(head.site_key, 0):
            known = ", ".join(
                f"{stack} L{layer} ({plural(n, 'head')})" for (stack, layer), n in n_heads.items()
            )
            raise UserError(
                f"The model has no head {head.label} in the stack '{head.stack}'.",
                expected=f"a head of: {known}",
                action="Choose a head that exists; layers and heads count from 0.",
            )


def require_heads(sites: Iterable[Site]) -> None:
    """Raise UserError for a model without heads, which cannot be drawn or measured."""
    if not any(site.n_heads for site in sites):
        raise UserError(
            "The model has no attention, so it has no heads to look at.",
            expected="a model with attention",
            action="Open another model; this one can still be trained and can generate text.",
        )


def some_sites(sites: Sequence[Site], n_all: int) -> str:
    """The first of some sites and the number of others; empty if they are all or none."""
    if not sites or len(sites) == n_all:
        return ""
    more = f" and {plural(len(sites) - 1, 'more layer')}" if len(sites) > 1 else ""
    return f"{sites[0].stack} L{sites[0].layer}{more}"


def find_site(sites: Iterable[Site], key: SiteKey) -> Site:
    """The site named by `key`; raises UserError if there is none."""
    for site in sites:
        if site.key == key:
            return site
    check_heads((HeadRef(stack=key[0], layer=key[1], head=0),), sites)
    raise AssertionError("unreachable: check_heads raises for an unknown site")


def once_words(sites: Iterable[Site], head: HeadRef) -> str:
    """A head's name before others were removed, `once L1H4`; empty if it is unchanged."""
    for site in sites:
        if site.key == head.site_key and (former := site.former_label(head.head)):
            return f"once {former}"
    return ""


Axis = Literal["source", "target", "summary", "sentences", "slots"]
Rows = Literal["written", "read"]
"""What a row of cross-attention is named after: the token generated there, or the query, which is read."""
ROWS: tuple[Rows, ...] = get_args(Rows)
Scale = Literal["fixed", "head", "row"]
"""Meaning of the top of the colour scale."""
Blend = Literal["none", "mean", "max", "sum"]
Over = Literal["selection", "layer", "stack"]
Hidden = Literal["nothing", "first", "special", "both"]
Block = Literal["all", "aa", "ab", "ba", "bb"]
NOT_WRITTEN = Token(id=-1, piece="(next)", is_special=True)
"""Follows the last token of a target if the model's next token is unknown."""
_ROWS: dict[Stack, Axis] = {
    "encoder": "source",
    "decoder": "target",
    "cross": "target",
    "pool": "summary",
    "second": "target",
    "back": "source",
    "second-pool": "summary",
    "sentence": "sentences",
    "read-in": "slots",
    "latents": "slots",
}
_COLUMNS: dict[Stack, Axis] = {
    "encoder": "source",
    "decoder": "target",
    "cross": "source",
    "pool": "source",
    "second": "target",
    "back": "target",
    "second-pool": "target",
    "sentence": "source",
    "read-in": "source",
    "latents": "slots",
}


def axes_of(stack: Stack, sites: Iterable[Site] = (), *, has_target: bool = True) -> tuple[Axis, Axis]:
    """Meaning of a stack's rows and columns; `sites` are those of its model.

    A model with one text has it as its source, whatever the stack is called.
    """
    site = next((site for site in sites if site.stack == stack), None)
    rows, columns = _ROWS[stack], _COLUMNS[stack]
    if site is not None and site.keys != "tokens":
        columns = site.keys
    if has_target:
        return rows, columns
    return "source" if rows == "target" else rows, "source" if columns == "target" else columns


def is_self_attention(site: Site) -> bool:
    """Whether rows and columns are the same tokens, so that a diagonal and distances are meaningful."""
    rows, columns = axes_of(site.stack, (site,))
    return rows == columns != "slots"


def tokens_of_site(
    site: Site, source: Tokens, target: Tokens | None
) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    """Tokens at the rows and at the columns of a site."""
    rows, columns = axes_of(site.stack, (site,), has_target=target is not None)
    slots = site.slot, site.n_slots
    return tokens_on(rows, source, target, slots), tokens_on(columns, source, target, slots)


def written_after(stack: Stack, target: Tokens | None) -> Token | None:
    """Token generated at the last row of a stack; None if rows generate nothing."""
    return target.following if target is not None and stack == "cross" else None


def row_labels(queries: tuple[Token, ...], following: Token | None, rows: Rows) -> tuple[Token, ...]:
    """Labels of the rows: the one place that decides them.

    A query is a token that was read. Where it is read to write the next one, and `following` after the last,
    a row may be called after what it writes, as in Bahdanau et al. 2015 (figure 3).
    """
    if following is None or rows == "read" or not queries:
        return queries
    return _written(queries, following) if len(queries) <= _KEPT_TOKENS else _name_written(queries, following)


def _name_written(queries: tuple[Token, ...], following: Token) -> tuple[Token, ...]:
    written = (*queries[1:], following)
    return tuple(replace(token, read=query.label) for query, token in zip(queries, written, strict=True))


_KEPT_TOKENS = 1024
"""The names of longer texts are made anew: kept, they would hold their memory."""
_written = lru_cache(maxsize=8)(_name_written)


def tokens_on(
    axis: Axis, source: Tokens, target: Tokens | None, slots: tuple[str, int] = ("slot", 0)
) -> tuple[Token, ...]:
    """Tokens along an axis; other labels appear as special tokens, with an id below 0."""
    match axis:
        case "source":
            return source.tokens
        case "target":
            return (source if target is None else target).tokens
        case "summary":
            return _named("summary", 1)
        case "sentences":
            return _named("sentence", len(source.sentences))
        case "slots":
            return _named(*slots, first=1)


def _named(name: str, n: int, first: int = 0) -> tuple[Token, ...]:
    if name == "summary":
        return (Token(id=-1, piece=name, is_special=True),)
    return tuple(Token(id=-1 - i, piece=f"{name} {first + i}") for i in range(n))
