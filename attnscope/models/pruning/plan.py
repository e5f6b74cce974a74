"""What is to go, what is to be folded in, and what is left: on paper, for every kind of model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnscope.errors import UserError
from attnscope.models.network import Network
from attnscope.records.pruning import ModelSize, SiteHeads
from attnscope.records.sites import Gates, HeadRef, Site, SiteKey, check_heads


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePlan:
    """One site: the heads that stay, by their present numbers, and what each is multiplied by."""

    site: Site
    kept: tuple[int, ...]
    scales: tuple[float, ...]

    @property
    def removed(self) -> tuple[HeadRef, ...]:
        """The heads that go."""
        return tuple(head for head in self.site.heads if head.head not in self.kept)

    @property
    def folded(self) -> tuple[tuple[HeadRef, float], ...]:
        """The heads that stay with a gate other than 1."""
        pairs = zip(self.kept, self.scales, strict=True)
        return tuple((self.site.heads[head], scale) for head, scale in pairs if scale != 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalPlan:
    """Every site of a model, in its order."""

    sites: tuple[SitePlan, ...]

    @property
    def kept(self) -> dict[SiteKey, tuple[int, ...]]:
        """The heads that stay at each site."""
        return {site.site.key: site.kept for site in self.sites}

    def at(self, key: SiteKey) -> SitePlan | None:
        """The plan of one site; None for one the model does not have."""
        return next((plan for plan in self.sites if plan.site.key == key), None)

    @property
    def removed(self) -> tuple[HeadRef, ...]:
        """Every head that goes."""
        return tuple(head for plan in self.sites for head in plan.removed)

    @property
    def folded(self) -> tuple[tuple[HeadRef, float], ...]:
        """Every head whose gate is multiplied into the weights."""
        return tuple(pair for plan in self.sites for pair in plan.folded)


def build_plan(sites: Sequence[Site], gates: Gates) -> RemovalPlan:
    """Heads at 0 go, others stay; raises UserError for a head the model does not have."""
    values = dict(gates.values)
    check_heads(values, sites)
    plans = []
    for site in sites:
        kept = tuple(head.head for head in site.heads if values.get(head, 1.0) != 0.0)
        scales = tuple(values.get(site.heads[head], 1.0) for head in kept)
        plans.append(SitePlan(site=site, kept=kept, scales=scales))
    return RemovalPlan(sites=tuple(plans))


def require_removal(plan: RemovalPlan) -> None:
    """Raise UserError when no head is off."""
    if not plan.removed:
        raise UserError(
            "No head is off.",
            expected="at least one head whose gate is 0",
            action="Switch heads off first, then remove them.",
        )


# What is left when heads have been removed from a network, whoever wrote the network.


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A smaller network, not yet proved; `write` fills an empty folder with it, and may be called late."""

    network: Network
    sites: tuple[SiteHeads, ...]
    before: ModelSize
    after: ModelSize
    opens_in: str
    write: Callable[[Path], None]
    notes: tuple[str, ...] = ()


def weights_file_bytes(folder: Path) -> int | None:
    """The bytes of the weights in a folder; None when there are none."""
    try:
        sizes = [file.stat().st_size for file in folder.glob("*.safetensors")]
    except OSError:
        return None
    return sum(sizes) if sizes else None


def removal_name(name: str, sites: tuple[SiteHeads, ...]) -> str:
    """A model's name with how many heads of how many it has now."""
    n_left, n_before = sum(site.n_left for site in sites), sum(site.n_before for site in sites)
    return f"{name[:60]}, {n_left} of {n_before} heads"


def removed_heads_card(sites: tuple[SiteHeads, ...], *, made_from: str) -> str:
    """The part of a model's card that says which head was which, in Markdown."""
    lines = ["", "## Removed heads", "", f"Made from {made_from}. Heads are renumbered at each site:", ""]
    for site in sites:
        if list(site.heads) == list(range(site.n_before)):
            continue
        pairs = [f"H{new} was H{old}" for new, old in enumerate(site.heads) if old is not None]
        text = ", ".join(pairs) or "no head is left"
        zeros = f"; {site.n_zero} of zeros" if site.n_zero and pairs else ""
        lines.append(f"- {site.stack} L{site.layer}: {text}{zeros}")
    return "\n".join([*lines, ""])
