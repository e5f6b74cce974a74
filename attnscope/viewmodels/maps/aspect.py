"""How maps are looked at: heads blended into one, keys left out, words instead of pieces.

An aspect changes what is shown and never what the model does. Every map that went through one says so:
`HeadMap.name` what it is, `HeadMap.note` what was taken away.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from attnscope.codec import Once
from attnscope.errors import UserError
from attnscope.records.sites import ROWS, HeadRef, Rows, Site

Blend = Literal["none", "mean", "max", "sum"]
Over = Literal["selection", "layer", "stack"]
Hidden = Literal["nothing", "first", "special", "both"]
Block = Literal["all", "aa", "ab", "ba", "bb"]

BLENDS: dict[Blend, str] = {
    "none": "one head",
    "mean": "mean of heads",
    "max": "largest of heads",
    "sum": "sum of heads",
}
OVERS: dict[Over, str] = {
    "selection": "the selected heads",
    "layer": "every head of the layer",
    "stack": "every head of the stack",
}
HIDDEN: dict[Hidden, str] = {
    "nothing": "every key",
    "first": "without the first token",
    "special": "without special tokens",
    "both": "without first and special tokens",
}

BLOCKS: dict[Block, str] = {
    "all": "both texts",
    "aa": "A → A",
    "ab": "A → B",
    "ba": "B → A",
    "bb": "B → B",
}
"""Of two texts that are read as one: queries of the first named, keys of the second."""
ROW_WORDS: dict[Rows, str] = {  # what a row is called after
    "written": "written",
    "read": "read",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Aspect:
    """One way of looking.

    `blend` makes one map of the heads `over`. `hidden` keys are left out of every row; with
    `is_renormalised` what is left of a row sums to 1 again. `is_by_word` sums the keys and averages the
    queries of each word's pieces. `block` shows one of the four parts of a map between two texts. `rows` says
    what the rows of cross-attention are called after; see `records.axes.row_labels`.
    """

    blend: Blend = "none"
    over: Over = "selection"
    hidden: Hidden = "nothing"
    is_renormalised: bool = False
    is_by_word: bool = False
    block: Block = "all"
    rows: Annotated[Rows, Once("read")] = "written"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("blend", self.blend, get_args(Blend)),
            ("over", self.over, get_args(Over)),
            ("hidden", self.hidden, get_args(Hidden)),
            ("block", self.block, get_args(Block)),
            ("rows", self.rows, ROWS),
        ):
            if value not in known:
                raise UserError(
                    f"A map cannot be shown with {name} '{str(value)[:40]}'.",
                    expected=", ".join(known),
                    action="Choose one of these.",
                )

    @property
    def changes_maps(self) -> bool:
        """Whether the numbers of maps are others through it."""
        return self.blend != "none" or self.leaves_out or self.is_by_word

    @property
    def leaves_out(self) -> bool:
        """Whether something of a map is not shown through it."""
        return self.hidden != "nothing" or self.block != "all"


PLAIN = Aspect()


def blended_heads(
    aspect: Aspect, selection: tuple[HeadRef, ...], sites: Iterable[Site]
) -> tuple[HeadRef, ...]:
    """The heads that the shown map is made of: the head selected last, or all that are blended."""
    if not selection:
        return ()
    primary = selection[-1]
    if aspect.blend == "none":
        return (primary,)
    if aspect.over == "selection":
        return selection
    return tuple(
        head
        for site in sites
        if site.stack == primary.stack and (aspect.over == "stack" or site.layer == primary.layer)
        for head in site.heads
    )


def blend_name(aspect: Aspect, heads: tuple[HeadRef, ...]) -> str:
    """What a blended map is called, for instance `mean of 8 heads of layer 1`."""
    how = {"mean": "mean", "max": "largest", "sum": "sum"}[aspect.blend]
    if aspect.over == "stack":
        return f"{how} of all {len(heads)} heads"
    if aspect.over == "layer" and heads:
        return f"{how} of {len(heads)} heads of layer {heads[0].layer}"
    if len(heads) <= 2:
        return f"{how} of {', '.join(head.label for head in heads)}"
    return f"{how} of {len(heads)} heads"


def aspect_words(aspect: Aspect) -> str:
    """The aspect as a step of the history names it."""
    parts = []
    if aspect.blend != "none":
        parts.append(f"{BLENDS[aspect.blend]} over {OVERS[aspect.over]}")
    left = [HIDDEN[aspect.hidden]] if aspect.hidden != "nothing" else []
    left += [f"{BLOCKS[aspect.block]} only"] if aspect.block != "all" else []
    if left:
        parts.append(", ".join(left) + (", renormalised" if aspect.is_renormalised else ""))
    if aspect.is_by_word:
        parts.append("words")
    if aspect.rows != PLAIN.rows:
        parts.append(f"rows {aspect.rows}")
    return "show " + (" · ".join(parts) or "maps as they are")
