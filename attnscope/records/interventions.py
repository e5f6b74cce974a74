"""Changes of single heads that go beyond a gate: what they are, in words and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attnscope.errors import UserError
from attnscope.records.masks import UseMask, cells_from_rows, mask_of, rows_as_text
from attnscope.records.sites import HeadRef, Site, head_named


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveEdge:
    """Query `query` of a head sees key `key` no more; the weight goes to the other keys of the row."""

    head: HeadRef
    query: int
    key: int

    @property
    def sentence(self) -> str:
        """What it does, for people."""
        return f"{self.head.label}: no edge from query {self.query} to key {self.key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeUniform:
    """A head looks at every key that it may see alike."""

    head: HeadRef

    @property
    def sentence(self) -> str:
        """What it does, for people."""
        return f"{self.head.label}: uniform weights"


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeMean:
    """A head gives every query the mean of its outputs over this text's queries.

    In a causal model that mean knows of later tokens; it is an ablation, not a model that could write.
    """

    head: HeadRef

    @property
    def sentence(self) -> str:
        """What it does, for people."""
        return f"{self.head.label}: its mean output everywhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPattern:
    """A head takes the weights that `from_head` has on another text of as many tokens.

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
_KINDS: dict[
    str, type[RemoveEdge] | type[MakeUniform] | type[MakeMean] | type[CopyPattern] | type[UseMask]
] = {
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
                f"{str(one)[:60]!r} is no change of a head.",
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
    return [_as_json(intervention) for intervention in interventions]


def interventions_from_json(values: Sequence[Mapping[str, Any]]) -> Interventions:
    """The inverse of `interventions_as_json`; raises KeyError, TypeError or ValueError for anything else."""
    found: list[Intervention] = []
    for value in values:
        kind, head = _KINDS[value["kind"]], _head(value["head"])
        if kind is RemoveEdge:
            found.append(RemoveEdge(head=head, query=int(value["query"]), key=int(value["key"])))
        elif kind is CopyPattern:
            target = value.get("target")
            found.append(
                CopyPattern(
                    head=head,
                    from_head=_head(value["from_head"]),
                    text=str(value["text"]),
                    target=None if target is None else str(target),
                )
            )
        elif kind is UseMask:
            cells = cells_from_rows([str(row) for row in value["rows"]])
            found.append(mask_of(cells, head.stack, str(value.get("name", ""))[:200]))
        elif kind is MakeUniform:
            found.append(MakeUniform(head=head))
        else:
            found.append(MakeMean(head=head))
    return tuple(found)


def _as_json(intervention: Intervention) -> dict[str, object]:
    kind = next(name for name, kind in _KINDS.items() if isinstance(intervention, kind))
    found: dict[str, object] = {"kind": kind, "head": _head_as_json(intervention.head)}
    match intervention:
        case RemoveEdge():
            found |= {"query": intervention.query, "key": intervention.key}
        case CopyPattern():
            found |= {
                "from_head": _head_as_json(intervention.from_head),
                "text": intervention.text,
                "target": intervention.target,
            }
        case UseMask():
            found |= {"name": intervention.name, "rows": list(rows_as_text(intervention.cells))}
        case MakeUniform() | MakeMean():
            pass
        case _:
            raise TypeError(f"unknown intervention {type(intervention).__name__}")
    return found


def _head_as_json(head: HeadRef) -> list[object]:
    return [head.stack, head.layer, head.head]


def _head(value: Sequence[Any]) -> HeadRef:
    stack, layer, head = value
    return HeadRef(stack=stack, layer=int(layer), head=int(head))
