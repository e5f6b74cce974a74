"""What the person can do to many gates at once, as pure functions, and how a step names it."""

from collections.abc import Iterable

from attnscope.records.sites import Gates, HeadRef, Site


def every_head(sites: Iterable[Site]) -> tuple[HeadRef, ...]:
    """Every head of every site, in the model's order."""
    return tuple(head for site in sites for head in site.heads)


def toggled_gates(gates: Gates, heads: Iterable[HeadRef]) -> Gates:
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


def joined_selection(selection: tuple[HeadRef, ...], heads: tuple[HeadRef, ...]) -> tuple[HeadRef, ...]:
    """The selection with `heads` added, without those it had already; never empty."""
    kept = tuple(head for head in selection if head not in heads)
    return (kept + tuple(head for head in heads if head not in selection)) or selection


def named(heads: tuple[HeadRef, ...]) -> str:
    """Heads as a label names them: one by name and stack, many by number."""
    if len(heads) == 1:
        return f"{heads[0].label} ({heads[0].stack})"
    return f"{len(heads)} heads"


def named_text(text: str, what: str = "text") -> str:
    """A text as a label names it: its first words."""
    words = " ".join(text.split())
    return f"{what} “{words[:31]}…”" if len(words) > 32 else f"{what} “{words}”"
