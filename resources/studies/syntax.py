"""The attention of a masked model, and its syntactic heads (Clark et al. 2019, sections 3, 4.2 and 6).

Without a model the recipe masked-english is trained on the corpus, and its untrained start is the control;
without a corpus either, the stories-masked demo is looked at. Trees give the arcs, and the sentences to
look at. An arc counts as found as in their paper: see the manner `clark` in `analysis/syntax.py`.

`control` is the same of the untrained model: what the best of many heads does by chance.

| symbol | meaning                                                | shape                        |
|--------|--------------------------------------------------------|------------------------------|
| a      | weights of one text, 0 where the mask forbids          | [n_heads, n_tokens, n_tokens]|
| shares | mean weight on a place, over the rows that have one    | [n_heads, n_places]          |

Where heads look is a mean over the rows of a text, then over the texts that have any. Special tokens stay in.
What is laid out on the plane of heads is D, the square root of the mean Jensen–Shannon divergence, since that
is a distance (Endres and Schindelin 2003), by classical scaling (Torgerson 1952).
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.analysis.corpus_texts import own_texts
from attnscope.analysis.importance import HeadDivergences
from attnscope.analysis.measures import row_entropy
from attnscope.analysis.syntax import MIN_ARCS, measure_syntax
from attnscope.conllu import Tree, read_conllu
from attnscope.errors import UserError
from attnscope.models import Model, load
from attnscope.records import freeze
from attnscope.records.charts import Chart, Series
from attnscope.records.findings import MANNERS_SAID, SYNTACTIC_MARGIN, SyntaxTable
from attnscope.records.importance import PartsDone
from attnscope.records.measures import CorpusProgress, difference_of, has_sign
from attnscope.records.sites import HeadRef, Stack
from attnscope.records.tokens import Token
from attnscope.studies.making import QUICK, checkpoints_of, run_folder, train_study
from attnscope.studies.study import Cell, Choices, PaperComparison, Study, StudyCard

CARD = StudyCard(
    name="syntax",
    place=6,
    paper="Clark et al. 2019, What does BERT look at?",
    question="Where do the heads of a masked model look, and do some follow syntax?",
    takes=("model", "corpus", "trees"),
)

PLACES = (
    "previous",
    "itself",
    "next",
    "start token",
    "separators",
    "stops and commas",
    "separators on specials",
)
"""The token before, the same, the one after; the first; other special tokens; `.` and `,`; and, of the rows
of special tokens other than the first, their weight on all special tokens."""
_STOPS = (".", ",")
_MIN_HEADS = 3
_MOST_GROUPS = 8
RECIPE = "masked-english"
_DEMO = "stories-masked"
_N_TREES = 1000
_TINY = {**QUICK, "model.n_layers": "2", "tokenizer.vocab_size": "300"}
_RELATIONS: tuple[tuple[str, str, float, float], ...] = (
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
_SHOWN = PLACES[:-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadPlane:
    """The heads of one stack as points: near ones attend alike.

    `clusters` number the groups from 0, in the order of their first head. `shown_share` is how much of all
    squared distance the two axes show.
    """

    stack: Stack
    heads: tuple[HeadRef, ...]
    divergences: NDArray[np.float64]
    places: NDArray[np.float64]
    clusters: tuple[int, ...]
    shown_share: float

    def __post_init__(self) -> None:
        freeze(self, "divergences", "places", dtype=np.float64, rank=2)
        if not len(self.heads) == len(self.places) == len(self.divergences) == len(self.clusters):
            raise ValueError(f"{len(self.heads)} heads, {len(self.places)} places")


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """Everything that was seen of the heads of one stack; entropies in nats, `even` that of equal weights.

    `stops` is the share of the tokens that are a stop or a comma, `n_tokens` counts tokens.
    """

    heads: tuple[HeadRef, ...]
    shares: NDArray[np.float64]
    entropies: NDArray[np.float64]
    plane: HeadPlane
    even: float
    stops: float
    n_tokens: int
    n_texts: int

    def __post_init__(self) -> None:
        freeze(self, "shares", dtype=np.float64, rank=2)
        freeze(self, "entropies", dtype=np.float64, rank=1)

    @property
    def layers(self) -> NDArray[np.int64]:
        """The layer of each head."""
        return np.array([head.layer for head in self.heads], np.int64)

    def share(self, place: str) -> NDArray[np.float64]:
        """The mean weight of each head on one of PLACES."""
        found: NDArray[np.float64] = self.shares[:, PLACES.index(place)]
        return found

    def by_layer(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Means over the heads of each layer."""
        layers = self.layers
        return np.array([values[layers == layer].mean() for layer in np.unique(layers)])

    def likeness(self) -> tuple[float, float]:
        """The mean divergence of two heads of one layer, and of two layers, in nats; NaN without such two."""
        above = np.triu(np.ones((len(self.heads),) * 2, bool), 1)
        is_same = self.layers[:, None] == self.layers[None]
        found = self.plane.divergences
        within, between = found[above & is_same], found[above & ~is_same]
        return _mean(within), _mean(between)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Measurements of one model: the positions its heads attend to, and the arcs they find."""

    looks: Looks
    syntax: SyntaxTable | None = None


def reproduce(choices: Choices) -> Iterator[PartsDone | Study]:
    """Train, where a corpus and no model is given; then look at the model, and at its untrained start."""
    most = 4 if choices.is_quick else _N_TREES
    trees = [] if choices.trees is None else read_conllu(choices.trees, most)
    folders = [choices.model or _DEMO]
    if choices.corpus is not None and not choices.model:
        out = run_folder(choices, RECIPE)
        changes = {**(_TINY if choices.is_quick else {}), "data.path": str(choices.corpus.resolve())}
        yield from train_study(RECIPE, out, seed=choices.seed, device=choices.device, changes=changes)
        folders = [str(out), str(checkpoints_of(out)[0][1])]
    models, seen = [load(folder, device=choices.device) for folder in folders], []
    for model in models:
        for event in see(model, trees, n_texts=most, min_arcs=1 if choices.is_quick else MIN_ARCS):
            if isinstance(event, Seen):
                seen.append(event)
            else:
                yield event
    yield _study(choices, models[0], seen[0], seen[1] if len(seen) > 1 else None, trees)


def see(model: Model, trees: Sequence[Tree], *, n_texts: int, min_arcs: int) -> Iterator[PartsDone | Seen]:
    """Look at a model with the sentences of the trees, or with the texts that the program has for it."""
    texts = [tree.text for tree in trees] or [t for t in own_texts(model, n_texts)[0] if isinstance(t, str)]
    syntax = None
    for event in measure_syntax(model, trees, min_arcs=min_arcs, manner="clark") if trees else ():
        if isinstance(event, CorpusProgress):
            yield PartsDone(n_done=event.n_done, n_total=event.n_total, about="following trees")
        else:
            syntax = event
    for one in look(model, texts):
        yield Seen(looks=one, syntax=syntax) if isinstance(one, Looks) else one


_DIFFERENCES = (
    "Theirs is BERT base: 144 heads in 12 layers, 110 million weights, 3.3 billion words of reading. Ours has"
    " a hundredth of the weights and reads a few hundred thousand words many times over.",
    "BERT reads two stretches of text, [SEP] after each, and tells whether the second follows the first; ours"
    " reads one, <s> … </s>, so that </s> separates nothing. Positions are rotary, theirs learned.",
    "For section 3 they take 1,000 stretches of 128 tokens of Wikipedia, and for section 4.2 the Wall Street"
    " Journal in Stanford Dependencies. Here both are the sentences of the trees, in Universal Dependencies:"
    " a preposition hangs on its object (their pobj, turned over), passive auxiliaries count as aux, and"
    " mark, of which most are the “to” of infinitives, is another relation than theirs.",
    "The best of all heads is chosen on the arcs that it is measured on, as in their paper; an untrained"
    " model, where there is one, shows what choosing alone gives.",
    "Not made again: coreference (no gold chains here), gradients, and the probing classifiers of section 5.",
)

_NO_TREES = "No trees were given (--conllu FILE): nothing was measured of section 4."

_NO_TRAINING = "The model was not trained by this study, which has no untrained start of it as a control."


def _study(choices: Choices, model: Model, seen: Seen, start: Seen | None, trees: Sequence[Tree]) -> Study:
    looks = seen.looks
    control = None if start is None else start.syntax
    more = (*(() if trees else (_NO_TREES,)), *(() if start is not None else (_NO_TRAINING,)))
    return Study(
        name=CARD.name,
        paper=CARD.paper,
        question=CARD.question,
        setting=tuple(_setting(choices, model, seen, has_start=start is not None)),
        comparisons=(
            *look_rows(looks, None if start is None else start.looks),
            *syntax_rows(seen.syntax, control, trees),
        ),
        differences=(*_DIFFERENCES, *more),
        charts=_syntax_charts(looks, best_heads(seen.syntax), best_heads(control)),
        columns=("what", "head", "name", "direction", "value", "low", "high", "best fixed offset", "arcs"),
        data=tuple(_rows(seen)),
        model=model.info.name,
        sha256=model.info.sha256,
    )


def _setting(choices: Choices, model: Model, seen: Seen, *, has_start: bool) -> Iterator[tuple[str, str]]:
    looks = seen.looks
    yield "model", f"{model.info.name}, {model.info.n_parameters:,} parameters, {len(looks.heads)} heads"
    if has_start and choices.corpus is not None:
        yield "trained on", choices.corpus.name
        yield "control", "the same model before its first step"
    yield "texts", f"{looks.n_texts:,}, {looks.n_tokens:,} tokens"
    yield "trees", choices.trees.name if choices.trees is not None else "none"
    yield "arcs", MANNERS_SAID["clark"]
    yield "seed", str(choices.seed)


def _rows(seen: Seen) -> Iterator[tuple[Cell, ...]]:
    looks, syntax = seen.looks, seen.syntax
    for row, head in enumerate(looks.heads):
        for place, share in zip(PLACES, looks.shares[row].tolist(), strict=True):
            yield ("weight on", head.label, place, "", share, None, None, None, None)
        yield ("entropy, nats", head.label, "", "", float(looks.entropies[row]), None, None, None, None)
        yield ("group", head.label, "", "", looks.plane.clusters[row], None, None, None, None)
    if syntax is None:
        return
    for row, head in enumerate(syntax.heads):
        for column, (relation, direction) in enumerate(syntax.relations):
            numbers = (syntax.values, syntax.low, syntax.high, syntax.baseline)
            cells = (float(part[row, column]) for part in numbers)
            yield ("arcs", head.label, relation, direction, *cells, int(syntax.n_arcs[row, column]))


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


def look_rows(looks: Looks, control: Looks | None = None) -> tuple[PaperComparison, ...]:
    """Sections 3 and 6: places, separators, entropy, and how alike the heads of a layer are."""
    own, even = float(np.median(looks.share("itself"))), math.exp(-looks.even)
    itself = PaperComparison(
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
) -> tuple[PaperComparison, ...]:
    """Section 4.2: all relations together, how many have a head, and each that their table names."""
    if syntax is None:
        return ()
    found, untrained = best_heads(syntax), best_heads(control)
    head, share = best_of_all(syntax)
    offset, baseline = best_offset(trees, list(found))
    n, n_untrained = (sum(best.is_syntactic for best in bests.values()) for bests in (found, untrained))
    return (
        PaperComparison(
            what=f"all relations: arcs that the best head finds ({head}, to head)",
            published=f"{_ALL[0]} against {_ALL[1]}",
            where="table 1",
            ours=share,
            unit=f"against {baseline:.3f} at offset {offset}",
            is_as_published=share > baseline,
            remark="No single head tells much of the whole tree, neither theirs nor ours.",
        ),
        PaperComparison(
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
            for relation, said, theirs, offsets in _RELATIONS
            if relation in found
        ),
    )


def _more(n: int, n_untrained: int, n_all: int) -> bool | None:
    """Whether more of some relations have a head than in the untrained control; None: it may be chance."""
    return has_sign(difference_of([n], n_all, [n_untrained], n_all), 1)


def _relation_row(
    best: Best, said: str, theirs: float, offsets: float, untrained: Best | None
) -> PaperComparison:
    chance = "" if untrained is None else f"; untrained {untrained.value:.2f}"
    return PaperComparison(
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


def _beside(looks: Looks, place: str, theirs: int) -> PaperComparison:
    shares = looks.share(place)
    return PaperComparison(
        what=f"heads with more than half of their weight on the {place} token",
        published=f"{theirs} of 144",
        where="section 3.1",
        ours=float((shares > _HALF).sum()),
        unit=f"of {len(shares)} (largest share {np.nanmax(shares):.2f})",
        is_as_published=bool((shares > _HALF).any()),
        remark="One such head or more counts as theirs.",
    )


def _special_rows(looks: Looks) -> list[PaperComparison]:
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
            PaperComparison(
                what="weight that separators themselves give to special tokens, mean of the heads",
                published="over 0.9: it gathers nothing of the text",
                where="section 3.2",
                ours=float(np.nanmean(resting)),
                unit=f"({np.nanmin(resting):.2f} to {np.nanmax(resting):.2f})",
                is_as_published=bool(np.nanmean(resting) > 0.9),
            )
        )
    return rows


def _layer_row(looks: Looks, place: str, published: str) -> PaperComparison:
    """The layer that looks most at a place; theirs tells how much, or in which half of the layers."""
    shares = looks.by_layer(looks.share(place))
    top = int(np.nanargmax(shares))
    is_lower = top < len(shares) / 2
    is_theirs = shares[top] > _HALF if place == "separators" else is_lower == (place == "start token")
    return PaperComparison(
        what=f"weight on {place}, mean of the layer with most: layer {top}",
        published=published,
        where="section 3.2",
        ours=float(shares[top]),
        unit=f"(layers: {_listed(shares)})",
        is_as_published=bool(is_theirs),
        remark=f"{looks.stops:.2f} of the tokens are one." if place == "stops and commas" else "",
    )


def _entropy_row(looks: Looks) -> PaperComparison:
    entropy = looks.by_layer(looks.entropies)
    return PaperComparison(
        what="entropy of the first layer's heads, mean",
        published="direction only: heads that look broadly lie in the lower layers",
        where="section 3.3",
        ours=float(entropy[0]),
        unit=f"nats (layers: {_listed(entropy)}; {looks.even:.2f} if all alike)",
        is_as_published=bool(entropy[0] > entropy[1:].mean()) if len(entropy) > 1 else None,
    )


def _likeness_row(looks: Looks, control: Looks | None) -> PaperComparison:
    within, between = looks.likeness()
    untrained = "" if control is None else f"; untrained {_ratio(*control.likeness()):.2f}"
    return PaperComparison(
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


def _syntax_charts(looks: Looks, found: Mapping[str, Best], control: Mapping[str, Best]) -> tuple[Chart, ...]:
    """Relations first, where there are trees; then where heads look, entropies, and the heads on a plane."""
    charts = [_looks_chart(looks), _entropy_chart(looks), _plane_chart(looks)]
    return tuple([*_relation_charts(found, control), *charts] if found else charts)


def _relation_charts(found: Mapping[str, Best], control: Mapping[str, Best]) -> tuple[Chart, Chart]:
    """Ours and theirs, each relation a point: above the dashed line a head finds more than the offset."""
    names = [name for name, *_ in _RELATIONS]
    ours = {name: (found[name].baseline, found[name].value) for name in names if name in found}
    untrained = {name: (control[name].baseline, control[name].value) for name in names if name in control}
    theirs = {name: (baseline, value) for name, _, value, baseline in _RELATIONS}
    y_label = "share of arcs that the best head finds"
    return (
        _relation_chart(
            "Relations, ours",
            f"{y_label}; dashed: as many as the offset",
            _points("untrained", untrained, 3),
            _points("trained", ours, 0, has_labels=True),
        ),
        _relation_chart("Relations, BERT", "the same", _points("published", theirs, 1, has_labels=True)),
    )


def _relation_chart(title: str, y_label: str, *series: Series) -> Chart:
    ends = np.array([0.0, 1.0])
    line = Series(name="as the offset", xs=ends, ys=ends, is_reference=True, has_label=False)
    return Chart(
        title=title,
        x_label="share of arcs at the best fixed offset",
        y_label=y_label,
        series=(line, *series),
        y_range=(0.0, 1.02),
    )


def _points(
    name: str, places: Mapping[str, tuple[float, float]], colour: int, *, has_labels: bool = False
) -> Series:
    ordered = sorted(places, key=lambda relation: places[relation])
    return Series(
        name=name,
        xs=np.array([places[relation][0] for relation in ordered], np.float64),
        ys=np.array([places[relation][1] for relation in ordered], np.float64),
        colour=colour,
        style="points",
        labels=tuple(ordered) if has_labels else (),
    )


def _looks_chart(looks: Looks) -> Chart:
    layers = np.unique(looks.layers).astype(np.float64)
    return Chart(
        title="Where heads look",
        x_label="layer",
        y_label="share of the weight",
        series=tuple(
            Series(
                name=place, xs=layers, ys=looks.by_layer(looks.share(place)), colour=colour, has_points=True
            )
            for colour, place in enumerate(_SHOWN)
        ),
    )


def _entropy_chart(looks: Looks) -> Chart:
    layers = np.unique(looks.layers).astype(np.float64)
    order = np.argsort(looks.layers, kind="stable")
    return Chart(
        title="Entropy",
        x_label="layer",
        y_label="nats; a point is a head, dashed: all alike",
        series=(
            Series(
                name="a head",
                xs=looks.layers[order].astype(np.float64),
                ys=looks.entropies[order],
                style="points",
                has_label=False,
            ),
            Series(name="mean", xs=layers, ys=looks.by_layer(looks.entropies), colour=1),
            Series(
                name="all alike",
                xs=layers,
                ys=np.full(len(layers), looks.even),
                is_reference=True,
                has_label=False,
            ),
        ),
    )


def _plane_chart(looks: Looks) -> Chart:
    series = []
    for layer in np.unique(looks.layers):
        own = np.flatnonzero(looks.layers == layer)
        own = own[np.argsort(looks.plane.places[own, 0], kind="stable")]
        series.append(
            Series(
                name=f"layer {layer}",
                xs=looks.plane.places[own, 0],
                ys=looks.plane.places[own, 1],
                colour=int(layer),
                style="points",
            )
        )
    return Chart(
        title="Heads that look alike",
        x_label="",
        y_label=f"{looks.plane.shown_share:.0%} of distances shown",
        series=tuple(series),
        is_geometric=True,
    )


def look(model: Model, texts: Sequence[str]) -> Iterator[PartsDone | Looks]:
    """Progress after each text, then the looks of all heads of a model's one stack.

    Raises UserError for a model that reads two texts, for one of fewer than three heads, and for texts
    without a token.
    """
    stack = _stack_of(model)
    sites = [site for site in model.sites if site.stack == stack]
    heads = [head for site in sites for head in site.heads]
    if len(heads) < _MIN_HEADS:
        raise UserError(
            f"{model.info.name} has {len(heads)} heads.",
            expected=f"at least {_MIN_HEADS} to compare",
            action="Choose another model.",
        )
    divergences = HeadDivergences(heads)
    sums, counts = (np.zeros((len(heads), len(PLACES))) for _ in range(2))
    entropies, even = np.zeros(len(heads)), 0.0
    n_tokens = n_stops = 0
    for n_done, text in enumerate(texts, start=1):
        trace = model.trace(text)
        tokens = trace.tokens(sites[0])[0]
        weights = torch.cat([trace.all_weights(site) for site in sites])  # [H, T, T]
        divergences.add_weights(weights)
        entropy, most = _entropies(weights)
        entropies, even = entropies + entropy, even + most
        shares = shares_of(weights.nan_to_num(nan=0.0), tokens)
        sums += np.nan_to_num(shares)
        counts += ~np.isnan(shares)
        n_tokens, n_stops = n_tokens + len(tokens), n_stops + sum(_is_stop(token) for token in tokens)
        yield PartsDone(n_done=n_done, n_total=len(texts), about="looking at heads")
    if not n_tokens:
        raise UserError(
            "There is no text to look at.", expected="a text of a word", action="Give other texts."
        )
    yield Looks(
        heads=tuple(heads),
        shares=np.where(counts > 0, sums / np.maximum(counts, 1), np.nan),
        entropies=entropies / len(texts),
        plane=plane_of(divergences, stack),
        even=even / len(texts),
        stops=n_stops / n_tokens,
        n_tokens=n_tokens,
        n_texts=len(texts),
    )


def shares_of(a: Tensor, tokens: Sequence[Token]) -> NDArray[np.float64]:
    """The mean weights of one text on each of PLACES; NaN where no row has that place."""
    n = len(tokens)
    special = torch.tensor([token.is_special for token in tokens])
    is_begun = bool(special[0])
    begin, separator = torch.zeros(n, dtype=torch.bool), special.clone()
    begin[0], separator[0] = is_begun, False
    stop = torch.tensor([_is_stop(token) for token in tokens])
    nothing = a.new_full((len(a),), torch.nan)

    def offset(k: int) -> Tensor:
        return a.diagonal(k, dim1=1, dim2=2).mean(dim=1) if abs(k) < n else nothing

    def on(keys: Tensor, rows: Tensor | slice = slice(None)) -> Tensor:
        chosen = a[:, rows]
        return chosen[:, :, keys].sum(dim=2).mean(dim=1) if bool(keys.any()) and chosen.shape[1] else nothing

    found = (offset(-1), offset(0), offset(1), on(begin), on(separator), on(stop), on(special, separator))
    array: NDArray[np.float64] = torch.stack(found, dim=1).cpu().double().numpy()
    return array


def _entropies(weights: Tensor) -> tuple[NDArray[np.float64], float]:
    """The mean entropy of each head's rows, and that of rows whose weights are all alike."""
    n_seen = (~weights[0].isnan()).sum(dim=-1)
    mean: NDArray[np.float64] = row_entropy(weights.nan_to_num(nan=0.0)).mean(dim=1).cpu().double().numpy()
    return mean, float(n_seen.cpu().double().log().mean())


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if values.size else math.nan


def _is_stop(token: Token) -> bool:
    return not token.is_special and token.piece.strip() in _STOPS


def _stack_of(model: Model) -> Stack:
    stacks = {site.stack for site in model.sites}
    if stacks not in ({"encoder"}, {"decoder"}):
        raise UserError(
            f"{model.info.name} has attention in: {', '.join(sorted(stacks))}.",
            expected="a model that reads one text with self-attention, masked or causal",
            action="Choose another model; 'attnscope study roles' takes those that translate.",
        )
    return next(iter(stacks))


def plane_of(sums: HeadDivergences, stack: Stack, n_groups: int | None = None) -> HeadPlane:
    """The heads on a plane and in groups, from what was summed so far."""
    mean = sums.mean()
    places, share = scale_classically(mean)
    distances = np.sqrt(mean)
    wishes = range(2, min(_MOST_GROUPS, len(mean) - 1) + 1) if n_groups is None else (n_groups,)
    clusters = max((link_average(distances, n) for n in wishes), key=lambda c: silhouette(distances, c))
    return HeadPlane(
        stack=stack,
        heads=sums.heads,
        divergences=mean,
        places=places,
        clusters=tuple(clusters),
        shown_share=share,
    )


def scale_classically(squared: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Points on a plane whose squared distances follow `squared` [n, n], and the share they show.

    The signs of the axes are fixed: the point furthest out on an axis lies on its positive side.
    """
    n = len(squared)
    centring = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centring @ squared @ centring)
    top = np.argsort(values)[::-1][:2]
    kept = np.clip(values[top], 0.0, None)
    places = vectors[:, top] * np.sqrt(kept)
    furthest = np.abs(places).argmax(axis=0)
    places *= np.where(places[furthest, range(places.shape[1])] < 0, -1.0, 1.0)
    total = np.clip(values, 0.0, None).sum()
    return places, float(kept.sum() / total) if total > 0 else 1.0


def link_average(distances: NDArray[np.float64], n_groups: int) -> list[int]:
    """Groups by average linkage: the two groups nearest on average are joined until `n_groups` are left."""
    groups = [[i] for i in range(len(distances))]
    while len(groups) > max(1, n_groups):
        pairs = [(i, j) for i in range(len(groups)) for j in range(i)]
        i, j = min(pairs, key=lambda pair: distances[np.ix_(groups[pair[0]], groups[pair[1]])].mean())
        groups[j] += groups.pop(i)
    groups.sort(key=min)
    numbers = {member: number for number, group in enumerate(groups) for member in group}
    return [numbers[i] for i in range(len(distances))]


def silhouette(distances: NDArray[np.float64], clusters: Sequence[int]) -> float:
    """Separation of groups, −1 to 1 (Rousseeuw 1987); a head alone in its group counts 0."""
    labels = np.asarray(clusters)
    scores = []
    for i, own in enumerate(labels):
        same = (labels == own) & (np.arange(len(labels)) != i)
        others = [distances[i, labels == other].mean() for other in set(labels.tolist()) - {own}]
        if not same.any() or not others:
            scores.append(0.0)
            continue
        inside, outside = distances[i, same].mean(), min(others)
        scores.append((outside - inside) / max(inside, outside, 1e-12))
    return float(np.mean(scores))
