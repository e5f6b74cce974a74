"""Which head goes to which place in smaller matrices that a foreign library must still understand.

A *slot* is room for one head in a site's matrices. A slot without a head holds zeros: its values are 0,
so it adds nothing. Libraries demand that sites agree in their numbers of slots, and that every
key-value slot serves equally many query slots; here the fewest slots are found that do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnscope.records.sites import SiteKey

Slot = int | None
"""The present number of a head, or None for a slot of zeros."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSlots:
    """The slots of one site: query heads, and the key-value heads that they read in equal groups."""

    queries: tuple[Slot, ...]
    keys: tuple[Slot, ...]


def same_slots(kept: Sequence[int], *, n_heads: int, n_kv_heads: int) -> SiteSlots:
    """Every head in its old place, removed ones as zeros; a key-value head no head reads is zeros too."""
    size = n_heads // n_kv_heads
    read = {head // size for head in kept}
    return SiteSlots(
        queries=tuple(head if head in kept else None for head in range(n_heads)),
        keys=tuple(head if head in read else None for head in range(n_kv_heads)),
    )


def free_slots(kept: Sequence[int]) -> SiteSlots:
    """As many slots as heads are left, each with keys of its own; one of zeros when none is left."""
    heads: tuple[Slot, ...] = tuple(kept) or (None,)
    return SiteSlots(queries=heads, keys=heads)


def grouped_slots(
    kept: Mapping[SiteKey, Sequence[int]], *, n_heads: int, n_kv_heads: int, width: int
) -> dict[SiteKey, SiteSlots]:
    """Slots alike at every site, with the fewest numbers; the query slots divide `width`.

    A key-value head with more query heads than a group holds is there several times (Ainslie et al.
    2023 average heads into groups; here groups are split, which changes nothing), and groups that lost
    heads are filled up with zeros, whichever costs less.
    """
    size = n_heads // n_kv_heads
    best: tuple[int, int, int] | None = None
    for group in range(1, size + 1):
        least = max(1, *(_n_groups(heads, size, group) for heads in kept.values()))
        n_kv = next((n for n in range(least, n_heads + 1) if width % (n * group) == 0), None)
        if n_kv is not None and n_kv * group <= n_heads:
            cost = (2 * n_kv * group + 2 * n_kv, n_kv, group)
            best = cost if best is None else min(best, cost)
    if best is None or best[0] >= 2 * n_heads + 2 * n_kv_heads:
        return {key: same_slots(heads, n_heads=n_heads, n_kv_heads=n_kv_heads) for key, heads in kept.items()}
    _, n_kv, group = best
    return {key: _fill_groups(heads, size, group, n_kv) for key, heads in kept.items()}


def _by_key(heads: Sequence[int], size: int) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for head in heads:
        groups.setdefault(head // size, []).append(head)
    return groups


def _n_groups(heads: Sequence[int], size: int, group: int) -> int:
    return sum(-(-len(members) // group) for members in _by_key(heads, size).values())


def _fill_groups(heads: Sequence[int], size: int, group: int, n_kv: int) -> SiteSlots:
    queries: list[Slot] = []
    keys: list[Slot] = []
    for key, members in _by_key(heads, size).items():
        for start in range(0, len(members), group):
            part = members[start : start + group]
            queries += [*part, *[None] * (group - len(part))]
            keys.append(key)
    n_empty = n_kv - len(keys)
    return SiteSlots(queries=(*queries, *[None] * (n_empty * group)), keys=(*keys, *[None] * n_empty))
