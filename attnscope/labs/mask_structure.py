"""Masks as structure: which keys a query may see in one layer, and how many layers reach a token.

    symbol    meaning                                                           shape
    kinds     why a query sees a key (see KINDS), NaN where it does not         [T, T]
    steps     layers until query i can know anything of token j, NaN: never     [T, T]

The masks are those of `attnscope.schemes.masks` whose keys have a control here, and the causal one. They are
written here in numpy, and compared in the tests with the rules that the engine computes with.
"""

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import format_number, plural
from attnscope.fields import number, one_of, redraw, switch
from attnscope.labs.lab import Lab, LabWords
from attnscope.records.charts import CellMap
from attnscope.schemes.masks import MASKS as SCHEMES
from attnscope.schemes.masks.mask import Mask

if TYPE_CHECKING:
    from attnscope.nn import ModelConfig

Numbers = NDArray[np.float64]
Cells = NDArray[np.bool_]

_KEYS = {"window", "dilation", "global_tokens", "prefix_tokens"}
_OF_LINKS = {"random_blocks", "mask_block", "mask_seed", "random_links"}
_SCHEMES = {name: one for name, one in SCHEMES.items() if {*one.choices} <= _KEYS | _OF_LINKS}
CAUSAL = "causal"
MASKS = {
    name: name if name == CAUSAL else _SCHEMES[name].title
    for name in dict.fromkeys(("full", CAUSAL, *_SCHEMES))
}
KINDS: tuple[str, ...] = ("seen", "global", "random", "prefix")
"""Why a cell is open; the numbers in `kinds` count from 1."""
NEAR, GLOBAL, RANDOM, PREFIX = 1, 2, 3, 4
MAX_TOKENS = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskChoice:
    """A mask and its numbers; those the mask does not use are ignored. `is_causal`: causal besides."""

    mask: str = one_of("bigbird", MASKS, title="mask", tip="Which keys a query may see")
    is_causal: bool = switch(
        False,
        title="also causal",
        tip="No key after the query, as in a decoder",
        is_used=lambda c: not c.is_one_way,
        shown=lambda c: c.is_causal or c.is_one_way,
    )
    n_tokens: int = number(48, range(8, MAX_TOKENS + 1), title="tokens", tip="Length of the text, T")
    window: int = number(
        2,
        range(17),
        title="window",
        tip="Positions a query sees on each side",
        is_used=lambda c: "window" in c.scheme.choices,
    )
    dilation: int = number(
        2,
        range(1, 9),
        title="dilation",
        tip="Only every n-th position is seen",
        is_used=lambda c: "dilation" in c.scheme.choices,
    )
    n_global: int = number(
        2,
        range(9),
        title="global",
        tip="Tokens that see and are seen by all",
        is_used=lambda c: "global_tokens" in c.scheme.choices,
    )
    n_random: int = number(
        1,
        range(5),
        title="random",
        tip="Random earlier blocks for each block",
        is_used=lambda c: c.scheme.draws_links,
    )
    block: int = number(
        2, range(1, 9), title="block", tip="Tokens in a block", is_used=lambda c: c.scheme.draws_links
    )
    n_prefix: int = number(
        10,
        range(33),
        title="prefix",
        tip="Tokens that everything sees",
        is_used=lambda c: c.scheme.has_prefix,
    )
    n_padding: int = number(0, range(8), title="padding", tip="Padding tokens at the end")
    seed: int = redraw(
        title="Other random blocks", tip="Draw new random blocks", is_used=lambda c: c.scheme.draws_links
    )

    def __post_init__(self) -> None:
        if not 2 <= self.n_tokens <= MAX_TOKENS or self.dilation < 1 or self.block < 1:
            raise ValueError(f"no mask for {self.n_tokens} tokens")
        if min(self.window, self.n_global, self.n_random, self.n_prefix, self.n_padding) < 0:
            raise ValueError("a mask takes no negative numbers")

    @property
    def scheme(self) -> Mask:
        """The mask besides causality."""
        return _SCHEMES["full" if self.mask == CAUSAL else self.mask]

    @property
    def is_dilated(self) -> bool:
        """Whether a window has gaps."""
        return self.scheme.step(cast("ModelConfig", self)) > 1

    @property
    def is_one_way(self) -> bool:
        """Whether the mask itself says which later keys a query sees: none, or those of a prefix."""
        return self.mask == CAUSAL or self.scheme.has_prefix

    @property
    def global_tokens(self) -> int:
        """`n_global`, by the name that a mask reads."""
        return self.n_global


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskShown:
    """The mask of a choice and its consequences.

    `n_layers` is the longest way between two tokens that ever reach each other; `never` the share of pairs
    (earlier keys only, under a causal mask) that no number of layers connects.
    """

    choice: MaskChoice
    kinds: Numbers
    steps: Numbers
    n_seen: int
    share: float
    n_layers: int
    never: float
    words: LabWords


def show_mask(choice: MaskChoice) -> MaskShown:
    """The map of a mask, the layers until tokens reach each other, and the counts."""
    kinds = mask_kinds(choice)
    steps = layers_to_reach(~np.isnan(kinds))
    wanted = _pairs_that_matter(choice)
    if choice.n_padding:
        steps[-choice.n_padding :] = np.nan
    missed = np.isnan(steps) & wanted
    n_seen = int(np.count_nonzero(~np.isnan(kinds)))
    share = n_seen / choice.n_tokens**2
    n_layers = int(np.nanmax(steps)) if np.isfinite(steps).any() else 0
    never = float(missed.sum() / max(1, wanted.sum()))
    return MaskShown(
        choice=choice,
        kinds=kinds,
        steps=steps,
        n_seen=n_seen,
        share=share,
        n_layers=n_layers,
        never=never,
        words=_words(choice, n_seen, share, n_layers, never),
    )


def mask_kinds(choice: MaskChoice) -> Numbers:
    """The reason why each query sees each key, as numbers of KINDS; NaN where the mask forbids it."""
    i, j = np.ogrid[: choice.n_tokens, : choice.n_tokens]
    kinds = np.full((choice.n_tokens, choice.n_tokens), np.nan)
    distance = np.abs(i - j)
    scheme, numbers = choice.scheme, cast("ModelConfig", choice)
    is_causal = choice.mask == CAUSAL or (choice.is_causal and not scheme.has_prefix)
    if scheme.is_full:
        kinds[:] = NEAR
    elif scheme.has_prefix:
        kinds[j <= i] = NEAR
        kinds[np.broadcast_to(j < choice.n_prefix, kinds.shape)] = PREFIX
    else:
        step, stride, n_global = (read(numbers) for read in (scheme.step, scheme.stride, scheme.n_global))
        if scheme.draws_links:
            kinds[_linked(choice)] = RANDOM
        kinds[(distance <= choice.window * step) & (distance % step == 0)] = NEAR
        if stride:
            kinds[distance % stride == 0] = NEAR
        kinds[(i < n_global) | (j < n_global)] = GLOBAL
    if is_causal:
        kinds[j > i] = np.nan
    if choice.n_padding:
        kinds[:, -choice.n_padding :] = np.nan
    return kinds


def layers_to_reach(allowed: Cells) -> Numbers:
    """The fewest layers after which query i depends on token j, for every pair; NaN for never.

    Residual connections keep what a token already knows.
    """
    step = (allowed | np.eye(len(allowed), dtype=bool)).astype(np.float32)
    steps = np.where(allowed, 1.0, np.nan)
    reached = step > 0
    for n_layers in range(2, len(allowed) + 1):
        further = reached.astype(np.float32) @ step > 0
        steps[further & ~reached] = n_layers
        if np.array_equal(further, reached):
            break
        reached = further
    return steps


def drawn_links(choice: MaskChoice) -> tuple[tuple[int, int], ...]:
    """Pairs of a query block and a block drawn for it: `n_random` of each, as far as possible.

    None of the global blocks and none within the window; earlier ones, and where they are too few some of the
    next later ones. The draws of a block depend on its number and the seed alone, as in the engine.
    """
    first = -(-choice.n_global // choice.block)
    near = -(-choice.window // choice.block)
    n_blocks = -(-choice.n_tokens // choice.block)
    links = []
    for this in range(n_blocks):
        earlier = _draw(
            random.Random(choice.seed * 1_000_003 + this), range(first, this - near), choice.n_random
        )
        after = max(first, this + near + 1)
        later = range(after, after + 2 * choice.n_random)
        drawn = earlier + _draw(random.Random(f"{choice.seed} {this}"), later, choice.n_random - len(earlier))
        links += [(this, block) for block in drawn if block < n_blocks]
    return tuple(links)


def _draw(draws: random.Random, candidates: range, n: int) -> list[int]:
    left = list(candidates)
    return [left.pop(int(draws.random() * len(left))) for _ in range(min(n, len(left)))]


def _linked(choice: MaskChoice) -> Cells:
    found = np.zeros((choice.n_tokens, choice.n_tokens), dtype=bool)
    for a, b in drawn_links(choice):
        queries = slice(a * choice.block, (a + 1) * choice.block)
        found[queries, b * choice.block : (b + 1) * choice.block] = True
    return found


def _pairs_that_matter(choice: MaskChoice) -> Cells:
    """Pairs of two different tokens other than padding; under causality the key is the earlier one."""
    n_real = choice.n_tokens - choice.n_padding
    i, j = np.ogrid[: choice.n_tokens, : choice.n_tokens]
    wanted: Cells = (i != j) & (j < n_real) & (i < n_real)
    if choice.is_causal or choice.is_one_way:
        wanted = wanted & (j < i)
    return wanted


def _words(choice: MaskChoice, n_seen: int, share: float, n_layers: int, never: float) -> LabWords:
    reach = f"{n_layers}" if not never else f"never for {never:.0%}"
    numbers = (
        ("cells seen", f"{n_seen:,}"),
        ("share of T²", f"{share:.1%}"),
        ("keys of a query, mean", format_number(n_seen / choice.n_tokens)),
        ("longest path, layers", str(n_layers)),
        ("all reach all after", reach),
    )
    causal = "and j ≤ i" if choice.is_causal and not choice.is_one_way else ""
    seen = choice.scheme.seen or choice.scheme.words.replace("`", "")
    formula = (
        "i sees j ≤ i" if choice.mask == CAUSAL else seen,
        *([causal] if causal else []),
        "not allowed: score −∞, weight 0",
    )
    return LabWords(formula=formula, numbers=numbers, sentence=_sentence(choice, share, n_layers, never))


def _sentence(choice: MaskChoice, share: float, n_layers: int, never: float) -> str:
    whom = "every earlier token" if choice.is_causal or choice.is_one_way else "every other"
    cost = f"{share:.0%} of the cells are computed"
    if never:
        is_dilated = choice.is_dilated and choice.window
        why = "the steps of the dilation never mix" if is_dilated else "some paths are closed"
        return f"{cost}, but {never:.0%} of the pairs never meet, however many layers there are: {why}."
    if n_layers == 1:
        others = whom.replace("other", "other one")
        return f"{cost}: one layer is enough for every token to receive information from {others}."
    return f"{_way(choice)}{cost}; after {plural(n_layers, 'layer')} every token has information from {whom}."


def _way(choice: MaskChoice) -> str:
    """The path of information from one token to a distant one."""
    if choice.is_dilated:
        return "Steps of the dilation reach further at the same cost. "
    scheme, numbers = choice.scheme, cast("ModelConfig", choice)
    if scheme.is_full or scheme.has_prefix:
        return ""
    if scheme.stride(numbers) > 1:
        return "Keys at a stride are shortcuts to any distance. "
    has_random = scheme.draws_links and choice.n_random > 0
    has_global = scheme.n_global(numbers) > 0
    if has_global and not choice.is_causal:
        if has_random:
            return "Global tokens and random blocks are shortcuts between distant positions. "
        return "Two steps through a global token join any two. "
    if has_random:
        return "Random blocks are shortcuts between distant positions. "
    if has_global:
        return "Under a causal mask global tokens hear of nothing later, and join no two others. "
    return "Information from beyond the window arrives through the layers in between. "


def mask_cells(shown: MaskShown) -> tuple[CellMap, ...]:
    """Allowed pairs, and the layers until each token is reached."""
    n_tokens = shown.choice.n_tokens
    return (
        CellMap(
            title="One layer",
            note=f"allowed: {shown.n_seen:,} of {n_tokens**2:,} cells",
            values=shown.kinds,
            kind="kinds",
            legend=(*KINDS, "not allowed"),
        ),
        CellMap(
            title="Layers",
            note="until a query has heard of a token",
            values=shown.steps,
            kind="steps",
            limit=float(max(1, shown.n_layers)),
            legend=("never",),
        ),
    )


class MaskStructure(Lab[MaskChoice, MaskShown]):
    name = "Masks as structure"
    group = "Masks"
    order = 1
    shows = (
        "Causal, windowed, dilated, strided and sparse masks, and how many layers it takes to reach a token"
    )
    source = (
        "Liu et al. 2018; Child et al. 2019; Beltagy et al. 2020, section 3.1; Zaheer et al. 2020, section 2"
    )
    search = (
        "look-ahead mask",
        "padding mask",
        "sliding window",
        "sparse attention",
        "masked self-attention",
        "local attention",
    )
    help = """Which keys each query sees under causal, prefix, windowed, dilated, strided, global and random
    masks, what share of T² is computed, and how many layers it takes to reach a token.
    """

    example = MaskChoice()
    figure_mm = (220.0, 130.0)

    resolve = staticmethod(show_mask)
    cells = staticmethod(mask_cells)
