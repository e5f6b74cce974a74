"""What is known of heads from measuring, in a word or two, for wherever a head is spoken of. No Qt."""

from attnscope.records.sites import HeadRef
from attnscope.viewmodels.heads.state import HeadsState


def known_roles(state: HeadsState) -> dict[HeadRef, str]:
    """The role of every head that was found to have one; empty before heads are measured."""
    return {card.head: state.role(row) for row, card in enumerate(state.cards) if card.roles}


def with_role(role: str, line: str) -> str:
    """The line about a head, its role first: `induction · all 18 rows rest on one token each`."""
    return " · ".join(filter(None, (role, line)))
