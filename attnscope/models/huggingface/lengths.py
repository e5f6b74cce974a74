"""How many tokens a picture or a sound becomes: asked of the attention itself."""

from collections.abc import Sequence

from torch import Tensor

from attnscope.errors import LoadError
from attnscope.nn.edits import Call, Edits
from attnscope.records.sites import Site, SiteKey


class LengthProbe:
    """Notes how many queries each site has for one input, and whether it is one input."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self._keys = frozenset(site.key for site in sites)
        self._sizes: set[tuple[int, int]] = set()

    def gate(self, site: SiteKey) -> Tensor | None:
        """No gates."""
        return None

    def edits(self, site: SiteKey) -> Edits | None:
        """No edits."""
        return None

    def wants(self, site: SiteKey) -> bool:
        """Every site."""
        return site in self._keys

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Take the sizes and keep nothing."""
        if site[0] == "encoder":
            self._sizes.add((call.q.shape[0], call.q.shape[2]))

    def only_length(self, name: str) -> int:
        """The number of tokens; raises LoadError where sites see only parts of the input."""
        if len(self._sizes) == 1 and next(iter(self._sizes))[0] == 1:
            return next(iter(self._sizes))[1]
        sizes = ", ".join(f"{n} × {length}" for n, length in sorted(self._sizes)) or "none"
        raise LoadError(
            f"{name} attends within parts of its input (parts × tokens: {sizes}).",
            kind="architecture",
            expected="attention from every token to every token, in every layer",
            action="Its maps cannot be laid side by side; open another model.",
        )
