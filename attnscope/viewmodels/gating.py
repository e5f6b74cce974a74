"""What the person can do to many gates at once, as pure functions."""

from collections.abc import Iterable

from attnscope.records.sites import Gates, HeadRef, Site


def every_head(sites: Iterable[Site]) -> tuple[HeadRef, ...]:
    """Every head of every site, in the model's order."""
    return tuple(head for site in sites for head in site.heads)


def toggled(gates: Gates, heads: Iterable[HeadRef]) -> Gates:
    """All of `heads` off, or all on when none of them lets anything through."""
    chosen = tuple(heads)
    value = 0.0 if any(gates.value(head) > 0.0 for head in chosen) else 1.0
    return Gates.of({**dict(gates.values), **dict.fromkeys(chosen, value)})


def all_but(sites: Iterable[Site], kept: Iterable[HeadRef]) -> Gates:
    """Every head off except `kept`, which are fully on."""
    keep = frozenset(kept)
    return Gates.of({head: 0.0 for head in every_head(sites) if head not in keep})


def inverted(gates: Gates, sites: Iterable[Site]) -> Gates:
    """Each gate g becomes 1 − g: what was off is on, and the other way round."""
    set_gates = dict(gates.values)
    return Gates.of({head: round(1.0 - set_gates.get(head, 1.0), 9) for head in every_head(sites)})


def named(heads: tuple[HeadRef, ...]) -> str:
    """Heads as a label names them: one by name and stack, many by number."""
    if len(heads) == 1:
        return f"{heads[0].label} ({heads[0].stack})"
    return f"{len(heads)} heads"
