"""What is known of attention that was recorded from a module, or given as arrays: no model is behind it."""

from dataclasses import dataclass

from attnscope.errors import UserError
from attnscope.records.sites import SiteKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Where recorded attention comes from.

    `name` is what a person calls it, `site_names` says which module each site was, `notes` are sentences
    that belong to its numbers: rows that do not sum to 1, dropout, cells that were no numbers.
    """

    name: str
    site_names: tuple[tuple[SiteKey, str], ...] = ()
    notes: tuple[str, ...] = ()

    def site_name(self, key: SiteKey) -> str:
        """The module that a site was; empty where nobody said."""
        return dict(self.site_names).get(key, "")


def needs_model(name: str, what: str = "This") -> UserError:
    """The error of asking recorded attention for what only a model can give."""
    return UserError(
        f"{what} needs a model, and {name} is recorded attention without one.",
        expected="a model that AttnScope can run",
        action="Look at its heads, measure them and draw them; for the rest open a model.",
    )
