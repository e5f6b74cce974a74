"""What is to go, what is to be folded in, and what is left: on paper, for every kind of model."""

from collections.abc import Sequence
from dataclasses import dataclass

from attnscope.errors import UserError
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
