"""The heads left at a site after some were removed: on paper, before any tensor exists.

A model that lost heads names, for each site that lost some, the heads of the model it was made from
that are still there. Heads are counted anew from 0; the n-th number is the old name of head n.

    in config.json   "kept_heads": {"encoder.0": [0, 1, 3], "cross.1": []}
    here             (("encoder.0", (0, 1, 3)), ("cross.1", ()))

A site that lost all its heads adds only the bias of its output. A key-value head goes when all of its
query heads are gone. Must not import torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

KeptHeads = tuple[tuple[str, tuple[int, ...]], ...]
"""Sites with the old numbers of their heads; sites that lost none are not listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadLayout:
    """The heads of one site under their original numbers, and the key-value head that each reads.

    `groups` has, for each query head, the place of its key-value head in `kv_heads`.
    """

    heads: tuple[int, ...]
    kv_heads: tuple[int, ...]
    groups: tuple[int, ...]

    @property
    def n_heads(self) -> int:
        """Number of query heads."""
        return len(self.heads)

    @property
    def n_kv_heads(self) -> int:
        """Number of key-value heads with weights."""
        return len(self.kv_heads)

    @property
    def is_even(self) -> bool:
        """Whether all key-value heads serve the same number of query heads."""
        return _are_even(self.groups, len(self.kv_heads))


@lru_cache(maxsize=1024)  # each pass asks it for all its sites
def _are_even(groups: tuple[int, ...], k: int) -> bool:
    n = len(groups)
    return n == 0 or (n % k == 0 and groups == tuple(head // (n // k) for head in range(n)))


@lru_cache(maxsize=1024)  # each pass asks for those of all its sites
def build_layout(heads: tuple[int, ...], *, n_heads: int, n_kv_heads: int) -> HeadLayout:
    """The layout of `heads`, where `n_heads` and `n_kv_heads` are the original numbers."""
    group_size = n_heads // n_kv_heads
    kv_heads = tuple(dict.fromkeys(head // group_size for head in heads))
    place = {kv: i for i, kv in enumerate(kv_heads)}
    return HeadLayout(
        heads=heads, kv_heads=kv_heads, groups=tuple(place[head // group_size] for head in heads)
    )


def site_name(stack: str, layer: int) -> str:
    """A site as `kept_heads` writes it, for instance `encoder.0`."""
    return f"{stack}.{layer}"


def kept_from_mapping(value: object) -> object:
    """Convert a value from JSON or TOML to KeptHeads; others are returned for the check to reject."""
    if not isinstance(value, Mapping):
        return value
    return tuple(
        (str(name), tuple(heads) if isinstance(heads, list) else heads) for name, heads in value.items()
    )


def fault_in_kept(kept: object, *, site_names: tuple[str, ...], n_heads: int) -> str:
    """Fault in kept heads, as a statement of what is expected; empty if there is none."""
    if not isinstance(kept, tuple):
        return "a table of sites, each with a list of heads"
    names = [entry[0] for entry in kept if isinstance(entry, tuple) and len(entry) == 2]
    if len(names) != len(kept) or len(set(names)) != len(names):
        return "each site once, with a list of heads"
    for name, heads in kept:
        if name not in site_names:
            return f"only sites of this model: {_few(site_names)}"
        is_list = isinstance(heads, tuple) and all(type(head) is int for head in heads)
        if not is_list or list(heads) != sorted(set(heads)) or not all(0 <= h < n_heads for h in heads):
            return f"for {name} rising numbers of heads from 0 to {n_heads - 1}, each once"
    return ""


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= 12 else ", ".join((*names[:12], "…"))
