"""Changes of single heads that go beyond a gate: what they are, in words and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from attnscope.codec import Codec, Through
from attnscope.errors import UserError
from attnscope.records.masks import UseMask, cells_from_rows, mask_of, rows_as_text
from attnscope.records.sites import Gates, HeadRef, Site, head_named


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveEdge:
    """Query `query` of a head no longer sees key `key`; the weight goes to the other keys of the row."""

    head: HeadRef
    query: int
    key: int

    @property
    def sentence(self) -> str:
        """What it does, for people."""
        return f"{self.head.label}: no edge from query {self.query} to key {self.key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeUniform:
    """A head gives every key that it may see the same weight."""

    head: HeadRef

    @property
    def sentence(self) -> str:
        """What it does, for people."""
        return f"{self.head.label}: uniform weights"


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeMean:
    """A head gives every query the mean of its outputs over this text's queries.

    In a causal model that mean includes later tokens; it is an ablation, not a model that could generate.
    """

    head: HeadRef

    @property
    def sentence(self) -> str:
        """What it does, for people."""
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
        """What it does, for people."""
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
    """One intervention, or several, as a tuple; their heads may be named in any way that `sites` allow.

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
    """`one` with its heads as records, where they were given as texts or tuples."""
    if isinstance(one, UseMask):
        return one
    head = head_named(one.head, sites) if not isinstance(one.head, HeadRef) else one.head
    if not isinstance(one, CopyPattern):
        return replace(one, head=head)
    giver = one.from_head
    return replace(
        one, head=head, from_head=giver if isinstance(giver, HeadRef) else head_named(giver, sites)
    )


def interventions_as_json(interventions: Interventions) -> list[dict[str, object]]:
    """Every intervention as JSON can hold it."""
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
    return mask_of(cells_from_rows(mask.rows), mask.head.stack, mask.name[:200])


HEAD_ROWS = {
    HeadRef: "a head: [stack, layer, head]",
    tuple[HeadRef, float]: "a gate: [stack, layer, head, value]",
}
_CODEC = Codec(forms={UseMask: Through(_WrittenMask, _as_written, _as_read)}, rows=HEAD_ROWS)
HEAD_FORMS = {
    Interventions: Through(tuple[object, ...], interventions_as_json, interventions_from_json),
    Gates: Through(tuple[tuple[HeadRef, float], ...], attrgetter("values"), Gates.of),
}
"""How documents hold what is changed of heads; see `Codec`."""
