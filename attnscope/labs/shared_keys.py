"""The cost of heads, and the saving if they share keys and values.

    symbol   meaning
    d, h     width of the model, number of query heads; each is d / h wide
    g        heads of keys and values, each read by h / g query heads
    T        tokens read so far

g = h is multi-head attention (Vaswani et al. 2017, section 3.2.2), g = 1 multi-query (Shazeer 2019), and
between them grouped-query attention (Ainslie et al. 2023).

A token costs 2 d² + 2 d · g d / h multiplications for its projections, and 2 T d for its scores and its
weighted sum: h heads of width d / h are as expensive as one of width d. Exponentials, h T, do grow with h.
The cache of a layer holds g (d / h) numbers of each token for keys, and as many for values.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import bytes_text, count_text, format_number
from attnscope.fields import number
from attnscope.labs.lab import BLUE, GREEN, ORANGE, Lab, LabWords
from attnscope.records.charts import CellMap, Chart, Series

Numbers = NDArray[np.float64]
HEADS: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
WIDTHS: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048, 4096)
LENGTHS: tuple[int, ...] = (128, 512, 2048, 8192, 32_768, 131_072)
BYTES = 2
"""Of a number in the cache: half precision."""


def _thousands(value: float) -> str:
    return f"{value:,.0f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingChoice:
    """A layer of attention; the number of key heads is at most the number of heads."""

    d_model: int = number(2048, WIDTHS, title="d", tip="Width of the model, d_model", text=_thousands)
    n_heads: int = number(32, HEADS, title="heads", tip="Query heads, h: each is d / h wide")
    n_kv_heads: int = number(
        8,
        HEADS,
        title="keys",
        tip="Heads of keys and values, g: 1 is multi-query attention, as many as heads is multi-head",
        shown=lambda choice: min(choice.n_kv_heads, choice.n_heads),
    )
    n_tokens: int = number(8192, LENGTHS, title="tokens", tip="Tokens read so far, T", text=_thousands)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadCost:
    """A token in one layer: multiplications of `projections` and `mixing`, bytes of `cache`."""

    projections: int
    mixing: int
    exponentials: int
    cache: int

    @property
    def multiplications(self) -> int:
        """Projections, scores and weighted sum."""
        return self.projections + self.mixing


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """The cost of a choice; `readers` [h, g] is 1 where a query head reads these keys."""

    choice: SharingChoice
    cost: HeadCost
    whole: HeadCost
    one: HeadCost
    readers: Numbers
    words: LabWords


def cost_of(d_model: int, n_heads: int, n_kv_heads: int, n_tokens: int) -> HeadCost:
    """One token that reads `n_tokens`, with n_kv_heads of n_heads; the cache holds all of them."""
    wide = d_model // n_heads * n_kv_heads
    return HeadCost(
        projections=2 * d_model**2 + 2 * d_model * wide,
        mixing=2 * n_tokens * d_model,
        exponentials=n_heads * n_tokens,
        cache=2 * wide * n_tokens * BYTES,
    )


def share(choice: SharingChoice) -> Sharing:
    """The costs of a choice, beside those with keys for every head and for one head."""
    h, g = choice.n_heads, min(choice.n_kv_heads, choice.n_heads)
    cost = cost_of(choice.d_model, h, g, choice.n_tokens)
    whole = cost_of(choice.d_model, h, h, choice.n_tokens)
    one = cost_of(choice.d_model, 1, 1, choice.n_tokens)
    readers = (np.arange(h)[:, None] // (h // g) == np.arange(g)).astype(np.float64)
    return Sharing(
        choice=choice,
        cost=cost,
        whole=whole,
        one=one,
        readers=readers,
        words=_words(choice, g, cost, whole, one),
    )


def _words(choice: SharingChoice, g: int, cost: HeadCost, whole: HeadCost, one: HeadCost) -> LabWords:
    h = choice.n_heads
    numbers = (
        ("width of a head, d / h", f"{choice.d_model // h:,}"),
        ("multiplications a token", count_text(cost.multiplications)),
        ("with one head", count_text(one.multiplications)),
        ("exponentials a token", count_text(cost.exponentials)),
        ("cache of a layer", bytes_text(cost.cache)),
        ("with keys for every head", bytes_text(whole.cache)),
        ("weights of the projections", count_text(cost.projections)),
    )
    return LabWords(
        formula=("projections 2d² + 2d·g·d/h", "scores and sum 2·T·d", "exponentials h·T", "cache 2·g·d/h·T"),
        numbers=numbers,
        sentence=_sentence(choice, g, cost, whole),
    )


def _sentence(choice: SharingChoice, g: int, cost: HeadCost, whole: HeadCost) -> str:
    h, width = choice.n_heads, choice.d_model // choice.n_heads
    if h == 1:
        return (
            "One head makes one map of weights. Split it: several heads cost the same and make one map each."
        )
    same = f"{h} heads of width {width:,} cost as many multiplications as one of width {choice.d_model:,}."
    if g == h:
        return f"{same} Let heads share keys: the maps stay {h}, and the cache shrinks."
    times = format_number(whole.cache / cost.cache)
    return (
        f"{same.removesuffix('.')} if each has its own keys. Where {h // g} heads share keys, there are "
        f"still {h} maps, and the cache is {times} times smaller."
    )


class SharedKeysLab(Lab[SharingChoice, Sharing]):
    name = "Heads and their keys"
    group = "Scores"
    order = 30
    shows = "Many heads cost what one wide head costs; sharing keys among them makes the cache small"
    source = "Vaswani et al. 2017, Shazeer 2019, Ainslie et al. 2023"
    search = ("GQA", "MQA", "grouped-query attention", "multi-query attention", "KV cache")
    help = """A layer splits its width among its heads, so that many narrow heads cost as many
    multiplications as one wide head; only the exponentials of the softmax grow with their
    number. While a model writes, the keys and values of every earlier token are kept, and this
    cache soon takes more memory than the weights. In *grouped-query attention* several query
    heads read the same keys; with one head of keys for all of them it is *multi-query
    attention*. Each query head still has a map of its own. In a [recipe](help:recipes),
    `n_kv_heads` sets how many there are."""
    example = SharingChoice()

    resolve = staticmethod(share)

    def cells(self, shown: Sharing) -> tuple[CellMap, ...]:
        """Keys that each query head reads."""
        return (
            CellMap(
                title="Who reads which keys",
                values=shown.readers,
                row_title="query head",
                column_title="keys",
            ),
        )

    def charts(self, shown: Sharing) -> tuple[Chart, ...]:
        """Charts of a token's cost against the number of heads, and of the cache against that of keys."""
        choice = shown.choice
        heads = np.array(HEADS, np.float64)
        own = [cost_of(choice.d_model, h, h, choice.n_tokens) for h in HEADS]
        keys = [g for g in HEADS if g <= choice.n_heads]
        caches = [cost_of(choice.d_model, choice.n_heads, g, choice.n_tokens).cache / 1e6 for g in keys]
        work = Chart(
            title="Work of a token",
            x_label="heads, each with its own keys",
            y_label="operations",
            series=(
                Series(
                    name="products",
                    xs=heads,
                    ys=np.array([c.multiplications for c in own], np.float64),
                    colour=BLUE,
                    has_points=True,
                ),
                Series(
                    name="exponentials",
                    xs=heads,
                    ys=np.array([c.exponentials for c in own], np.float64),
                    colour=ORANGE,
                    has_points=True,
                ),
            ),
            is_log_x=True,
            is_log_y=True,
            marks=((float(choice.n_heads), ""),),
        )
        cache = Chart(
            title="Cache of a layer",
            x_label="heads of keys and values",
            y_label="MB",
            series=(
                Series(
                    name="",
                    xs=np.array(keys, np.float64),
                    ys=np.array(caches),
                    colour=GREEN,
                    has_points=True,
                ),
            ),
            is_log_x=True,
            is_log_y=True,
            marks=((float(min(choice.n_kv_heads, choice.n_heads)), ""),),
        )
        return (work, cache)
