"""Which heads of a model that tells labels can be removed: those that have weights of their own.

Pooling and matching are each one head without which nothing is told, and both texts of a pair are read by
the same weights, so that a head goes for both or for neither.
"""

from attnscope.errors import UserError
from attnscope.models.pruning.plan import Plan, SitePlan
from attnscope.nn.config import ModelConfig


def require_removable(config: ModelConfig, plan: Plan) -> None:
    """Raise UserError for a head that cannot go, or whose gate cannot be multiplied into the weights."""
    if not config.n_labels:
        return
    owners = set(config.headed_keys())
    for site in plan.sites:
        if site.site.key in owners:
            continue
        if site.site.stack == "second":
            _require_same(site, plan.at(("encoder", site.site.layer)))
        elif site.removed or site.folded:
            raise UserError(
                f"The head of {site.site.stack} L{site.site.layer} cannot be removed: it is the only way "
                "from the tokens to the label.",
                expected="its gate at 1",
                action="Open its gate again; heads of the encoder can be removed.",
            )


def _require_same(second: SitePlan, first: SitePlan | None) -> None:
    if first is not None and (second.kept, second.scales) == (first.kept, first.scales):
        return
    layer = second.site.layer
    raise UserError(
        f"The gates of encoder L{layer} and second L{layer} differ, but the same weights read both texts.",
        expected="the same gates at both",
        action="Set each head's gate alike for both texts, or open it for both.",
    )
