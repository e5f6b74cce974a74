"""What `syntax.py` measured, set beside the numbers of Clark et al. 2019.

`control` is the same of the untrained model: what the best of many heads does by chance.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.analysis.conllu import Tree
from attnscope.records.shares import difference_of, has_sign
from attnscope.records.word_tables import SYNTACTIC_MARGIN, SyntaxTable
from attnscope.studies.looking import Looks
from attnscope.studies.study import Comparison

RELATIONS: tuple[tuple[str, str, float, float], ...] = (
    ("det", "determiner → noun", 0.943, 0.517),
    ("case", "preposition → object", 0.763, 0.346),
    ("obj", "object → verb", 0.868, 0.400),
    ("nsubj", "subject → verb", 0.585, 0.455),
    ("amod", "adjective → noun", 0.756, 0.683),
    ("compound", "noun → noun", 0.704, 0.702),
    ("advmod", "adverb → verb", 0.488, 0.402),
    ("aux", "auxiliary → verb", 0.811, 0.715),
    ("ccomp", "clause → verb", 0.488, 0.124),
)
"""Relation, in words, and their best head against their best fixed offset (table 1): those of their
relations that Universal Dependencies have too, each with about the same best offset."""
_ALL = (0.345, 0.263)
_HALF, _LITTLE = 0.5, 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The best head for a relation in either direction, and what the best fixed offset finds."""

    relation: str
    head: str
    direction: str
    value: float
    low: float
    high: float
    baseline: float
    n_arcs: int

    @property
    def is_syntactic(self) -> bool:
        """Whether the head lies above the offset by the margin that makes a head syntactic."""
        return self.value - self.baseline >= SYNTACTIC_MARGIN


def best_heads(syntax: SyntaxTable | None) -> dict[str, Best]:
    """The best head of every relation, whichever the direction; nothing without trees."""
    found: dict[str, Best] = {}
    for column, (relation, direction) in enumerate(syntax.relations if syntax else ()):
        if syntax is None or np.isnan(syntax.values[:, column]).all():
            continue
        row = int(np.nanargmax(syntax.values[:, column]))
        best = Best(
            relation=relation,
            head=syntax.heads[row].label,
            direction=direction,
            value=float(syntax.values[row, column]),
            low=float(syntax.low[row, column]),
            high=float(syntax.high[row, column]),
            baseline=float(syntax.baseline[row, column]),
            n_arcs=int(syntax.n_arcs[row, column]),
        )
        if relation not in found or best.value > found[relation].value:
            found[relation] = best
    return found


def best_of_all(syntax: SyntaxTable) -> tuple[str, float]:
    """The head that finds most arcs of all relations together, words looking at their heads; its share."""
    columns = [c for c, (_, direction) in enumerate(syntax.relations) if direction == "to head"]
    counts = syntax.n_arcs[:, columns]
    shares = np.nansum(syntax.values[:, columns] * counts, axis=1) / np.maximum(counts.sum(axis=1), 1)
    best = int(shares.argmax())
    return syntax.heads[best].label, float(shares[best])


def best_offset(trees: Sequence[Tree], relations: Sequence[str]) -> tuple[int, float]:
    """The offset at which most words have their head, and the share of words that have it there."""
    counts: Counter[int] = Counter()
    for tree in trees:
        for word in tree.words:
            if word.head >= 0 and word.relation in relations and tree.words[word.head].place != word.place:
                counts[tree.words[word.head].place - word.place] += 1
    if not counts:
        return 0, math.nan
    offset, n = counts.most_common(1)[0]
    return offset, n / counts.total()


def look_rows(looks: Looks, control: Looks | None = None) -> tuple[Comparison, ...]:
    """Sections 3 and 6: places, separators, entropy, and how alike the heads of a layer are."""
    own, even = float(np.median(looks.share("itself"))), math.exp(-looks.even)
    itself = Comparison(
        what="weight on the token itself, median head",
        published="direction only: most heads put little weight on the current token",
        where="section 3.1",
        ours=own,
        unit=f"against {even:.2f} if all tokens had the same",
        is_as_published=own < _LITTLE,
        remark=f"Less than {_LITTLE:g} counts as little.",
    )
    beside = [_beside(looks, place, theirs) for place, theirs in (("previous", 4), ("next", 5))]
    likeness = [] if np.isnan(looks.likeness()).any() else [_likeness_row(looks, control)]
    return (*beside, itself, *_special_rows(looks), _entropy_row(looks), *likeness)


def syntax_rows(
    syntax: SyntaxTable | None, control: SyntaxTable | None, trees: Sequence[Tree]
) -> tuple[Comparison, ...]:
    """Section 4.2: all relations together, how many have a head, and each that their table names."""
    if syntax is None:
        return ()
    found, untrained = best_heads(syntax), best_heads(control)
    head, share = best_of_all(syntax)
    offset, baseline = best_offset(trees, list(found))
    n, n_untrained = (sum(best.is_syntactic for best in bests.values()) for bests in (found, untrained))
    return (
        Comparison(
            what=f"all relations: arcs that the best head finds ({head}, to head)",
            published=f"{_ALL[0]} against {_ALL[1]}",
            where="table 1",
            ours=share,
            unit=f"against {baseline:.3f} at offset {offset}",
            is_as_published=share > baseline,
            remark="No single head tells much of the whole tree, neither theirs nor ours.",
        ),
        Comparison(
            what=f"relations of which a head finds {SYNTACTIC_MARGIN:.2f} more than the best fixed offset",
            published="direction only: heads specialise in relations",
            where="section 4.2",
            ours=float(n),
            unit=f"of {len(found)}" + (f"; untrained {n_untrained}" if untrained else ""),
            is_as_published=_more(n, n_untrained, len(found)) if untrained else None,
            undecided="too few relations to tell" if untrained else "no untrained control",
            remark=", ".join(name for name, best in found.items() if best.is_syntactic),
        ),
        *(
            _relation_row(found[relation], said, theirs, offsets, untrained.get(relation))
            for relation, said, theirs, offsets in RELATIONS
            if relation in found
        ),
    )


def _more(n: int, n_untrained: int, n_all: int) -> bool | None:
    """Whether more of some relations have a head than in the untrained control; None: it may be chance."""
    return has_sign(difference_of([n], n_all, [n_untrained], n_all), 1)


def _relation_row(best: Best, said: str, theirs: float, offsets: float, untrained: Best | None) -> Comparison:
    chance = "" if untrained is None else f"; untrained {untrained.value:.2f}"
    return Comparison(
        what=f"{said}: arcs that the best head finds ({best.head}, {best.direction})",
        published=f"{theirs} against {offsets}",
        where="table 1",
        ours=best.value,
        low=best.low,
        high=best.high,
        unit=f"against {best.baseline:.2f} at the best fixed offset{chance}",
        is_as_published=best.is_syntactic if theirs - offsets >= SYNTACTIC_MARGIN else None,
        remark=f"{best.n_arcs} arcs. Where their head lies {SYNTACTIC_MARGIN:.2f} or more above the offset,"
        " ours should.",
    )


def _beside(looks: Looks, place: str, theirs: int) -> Comparison:
    shares = looks.share(place)
    return Comparison(
        what=f"heads with more than half of their weight on the {place} token",
        published=f"{theirs} of 144",
        where="section 3.1",
        ours=float((shares > _HALF).sum()),
        unit=f"of {len(shares)} (largest share {np.nanmax(shares):.2f})",
        is_as_published=bool((shares > _HALF).any()),
        remark="One such head or more counts as theirs.",
    )


def _special_rows(looks: Looks) -> list[Comparison]:
    rows = [
        _layer_row(looks, place, published)
        for place, published in (
            ("separators", "over 0.5 in layers 6 to 10 of 12"),
            ("start token", "direction only: lower layers look at [CLS]"),
            ("stops and commas", "direction only: upper layers look at stops and commas"),
        )
        if not np.isnan(looks.share(place)).all()
    ]
    resting = looks.share("separators on specials")
    if not np.isnan(resting).all():
        rows.append(
            Comparison(
                what="weight that separators themselves give to special tokens, mean of the heads",
                published="over 0.9: it gathers nothing of the text",
                where="section 3.2",
                ours=float(np.nanmean(resting)),
                unit=f"({np.nanmin(resting):.2f} to {np.nanmax(resting):.2f})",
                is_as_published=bool(np.nanmean(resting) > 0.9),
            )
        )
    return rows


def _layer_row(looks: Looks, place: str, published: str) -> Comparison:
    """The layer that looks most at a place; theirs tells how much, or in which half of the layers."""
    shares = looks.by_layer(looks.share(place))
    top = int(np.nanargmax(shares))
    is_lower = top < len(shares) / 2
    is_theirs = shares[top] > _HALF if place == "separators" else is_lower == (place == "start token")
    return Comparison(
        what=f"weight on {place}, mean of the layer with most: layer {top}",
        published=published,
        where="section 3.2",
        ours=float(shares[top]),
        unit=f"(layers: {_listed(shares)})",
        is_as_published=bool(is_theirs),
        remark=f"{looks.stops:.2f} of the tokens are one." if place == "stops and commas" else "",
    )


def _entropy_row(looks: Looks) -> Comparison:
    entropy = looks.by_layer(looks.entropies)
    return Comparison(
        what="entropy of the first layer's heads, mean",
        published="direction only: heads that look broadly lie in the lower layers",
        where="section 3.3",
        ours=float(entropy[0]),
        unit=f"nats (layers: {_listed(entropy)}; {looks.even:.2f} if all alike)",
        is_as_published=bool(entropy[0] > entropy[1:].mean()) if len(entropy) > 1 else None,
    )


def _likeness_row(looks: Looks, control: Looks | None) -> Comparison:
    within, between = looks.likeness()
    untrained = "" if control is None else f"; untrained {_ratio(*control.likeness()):.2f}"
    return Comparison(
        what="divergence of heads of one layer over that of heads of two",
        published="direction only: heads of a layer are alike",
        where="section 6",
        ours=_ratio(within, between),
        unit=f"({within:.3f} and {between:.3f} nats{untrained})",
        is_as_published=within < between,
        remark=f"The heads fall into {len(set(looks.plane.clusters))} groups.",
    )


def _listed(values: NDArray[np.float64]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _ratio(one: float, other: float) -> float:
    return one / other if other else math.nan
