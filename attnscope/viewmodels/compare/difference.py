"""Two texts token by token, and one head of two sides on shared axes: both maps and the difference B − A."""

import difflib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import (
    few_listed,
    fixed,
    number_text,
    plural,
    probability_text,
    significant,
    with_sign,
)
from attnscope.records import freeze
from attnscope.records.maps import (
    NO_TOKEN,
    HeadMap,
    StackAlignment,
    TokenAlignment,
    Which,
    difference,
    mean_abs_of,
    moved_of,
    on_slots,
    peak_of,
)
from attnscope.records.messages import Traced
from attnscope.records.models import ModelInfo
from attnscope.records.outputs import NOT_MEANT, Comparison, Output, OutputKind, Prediction
from attnscope.records.sites import HeadRef, Rows, Stack
from attnscope.records.tokens import Token, told_apart
from attnscope.viewmodels.maps.aspect import labelled, stack_tokens
from attnscope.viewmodels.session.head_measures import MEASURES, MeasureKind, find_measures

Way = Literal["pairs", "pieces", "position"]
WAYS: dict[Way, str] = {
    "pairs": "same pieces, and as many replaced ones in pairs",
    "pieces": "same pieces only",
    "position": "first with first, second with second",
}
_POPULAR_FROM = 500
"""Texts with more tokens than this are matched by their rarer pieces first, which is quick."""
_N_NAMED = 3
_LONGEST_NAME = 16


def align_tokens(first: Sequence[Token], second: Sequence[Token], way: Way = "pairs") -> TokenAlignment:
    """Both texts on one axis; tokens without a partner have a slot of their own."""
    if way == "position":
        n = max(len(first), len(second))
        return _alignment([(_at(i, first), _at(i, second)) for i in range(n)])
    slots: list[tuple[int, int]] = []
    for kind, i, i_end, j, j_end in _blocks([t.piece for t in first], [t.piece for t in second]):
        is_pair = kind == "replace" and i_end - i == j_end - j and way == "pairs"
        if kind == "equal" or is_pair:
            slots += zip(range(i, i_end), range(j, j_end), strict=True)
        else:
            slots += [(index, NO_TOKEN) for index in range(i, i_end)]
            slots += [(NO_TOKEN, index) for index in range(j, j_end)]
    return _alignment(slots)


def align_stacks(
    first: Traced, second: Traced, way: Way = "pairs", rows: Rows = "read"
) -> tuple[StackAlignment, ...]:
    """The axes of every stack that both traces have; if there is none, of the first of each.

    Rows are matched by what they are called after.
    """
    made: dict[tuple[int, int], TokenAlignment] = {}

    def aligned(own: Sequence[Token], other: Sequence[Token]) -> TokenAlignment:
        key = (id(own), id(other))
        if key not in made:
            made[key] = align_tokens(own, other, way)
        return made[key]

    found = []
    sides = [
        (pair, stack_tokens(first, pair[0], rows), stack_tokens(second, pair[1], rows))
        for pair in stack_pairs(first, second)
    ]
    for (stack, other), (own_queries, own_keys), (queries, keys) in sides:
        found.append(
            StackAlignment(
                stack=stack,
                second_stack=other,
                queries=aligned(own_queries, queries),
                keys=aligned(own_keys, keys),
            )
        )
    return tuple(found)


def stack_pairs(first: Traced, second: Traced) -> tuple[tuple[Stack, Stack], ...]:
    """Pairs of stacks of A and B to compare: those with the same name, else the first of each."""
    own, other = (tuple(dict.fromkeys(g.site.stack for g in traced.grids)) for traced in (first, second))
    common = tuple((stack, stack) for stack in own if stack in other)
    return common or tuple(zip(own[:1], other[:1], strict=False))


def alignment_words(alignment: TokenAlignment, first: Sequence[Token], second: Sequence[Token]) -> str:
    """Alignment of two texts, in words, including tokens without a partner."""
    pairs = [(i, j) for i, j in _slots(alignment) if NO_TOKEN not in (i, j)]
    replaced = [(i, j) for i, j in pairs if first[i].piece != second[j].piece]
    only_first = [first[i].piece for i, j in _slots(alignment) if j == NO_TOKEN]
    only_second = [second[j].piece for i, j in _slots(alignment) if i == NO_TOKEN]
    if not replaced and not only_first and not only_second:
        return f"same {plural(len(alignment), 'token')}"
    n_common = len(pairs) - len(replaced)
    parts = [f"{plural(n_common, 'token')} in common"]
    if replaced:
        names = [f"{_short(first[i].piece)} → {_short(second[j].piece)}" for i, j in replaced]
        parts.append(f"{len(replaced)} paired: {few_listed(names, _N_NAMED)}")
    for side, pieces in (("A", only_first), ("B", only_second)):
        if pieces:
            named = few_listed([_short(piece) for piece in pieces], _N_NAMED)
            parts.append(f"{len(pieces)} only in {side}: {named}")
    return " · ".join(parts)


def _blocks(first: list[str], second: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """The blocks of `difflib`, after removing the common beginning and end."""
    n_both = min(len(first), len(second))
    start = next((k for k in range(n_both) if first[k] != second[k]), n_both)
    n_rest = n_both - start
    end = next((k for k in range(n_rest) if first[-1 - k] != second[-1 - k]), n_rest)
    middle, other = first[start : len(first) - end], second[start : len(second) - end]
    if start:
        yield ("equal", 0, start, 0, start)
    is_long = max(len(middle), len(other)) > _POPULAR_FROM
    matcher = difflib.SequenceMatcher(None, middle, other, autojunk=is_long)
    for kind, i, i_end, j, j_end in matcher.get_opcodes():
        yield (kind, start + i, start + i_end, start + j, start + j_end)
    if end:
        yield ("equal", len(first) - end, len(first), len(second) - end, len(second))


def _slots(alignment: TokenAlignment) -> Iterator[tuple[int, int]]:
    return zip(alignment.first, alignment.second, strict=True)


def _alignment(slots: list[tuple[int, int]]) -> TokenAlignment:
    return TokenAlignment(first=tuple(i for i, _ in slots), second=tuple(j for _, j in slots))


def _at(index: int, tokens: Sequence[Token]) -> int:
    return index if index < len(tokens) else NO_TOKEN


def _short(piece: str) -> str:
    piece = " ".join(piece.split()) or repr(piece)
    return piece if len(piece) <= _LONGEST_NAME else piece[: _LONGEST_NAME - 1] + "…"


GAP = Token(id=NO_TOKEN, piece="–", is_special=True)
"""Stands on an axis where a side has no token."""
_LEAST_LIMIT = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMaps:
    """One head of A and of B on shared axes. `limit` is the |Δ| at the ends of the colours; 0: the largest.

    `queries` and `keys` name each slot for both sides (`cat → dog`); `names` say what A and B are.
    """

    head: HeadRef
    rows: TokenAlignment
    cols: TokenAlignment
    first: NDArray[np.float32]
    second: NDArray[np.float32]
    delta: NDArray[np.float32]
    kinds: NDArray[np.uint8]
    side_queries: tuple[tuple[Token, ...], tuple[Token, ...]]
    side_keys: tuple[tuple[Token, ...], tuple[Token, ...]]
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]
    names: tuple[str, str] = ("A", "B")
    limit: float = 0.0
    badges: tuple[str, str] = ("", "")

    def __post_init__(self) -> None:
        shape = (len(self.rows), len(self.cols))
        freeze(self, "first", "second", "delta", dtype=np.float32, rank=2, shape=shape)
        freeze(self, "kinds", dtype=np.uint8, rank=2)

    @property
    def peak(self) -> float:
        """The largest |Δ|."""
        return peak_of(self.delta)

    @property
    def end(self) -> float:
        """The |Δ| at the ends of the colours; 1 if nothing differs."""
        return max(self.limit or self.peak, _LEAST_LIMIT) if self.limit or self.peak else 1.0

    @property
    def mean_abs(self) -> float:
        """The mean |Δ| over the cells that both sides allow; NaN if there is none."""
        return mean_abs_of(self.delta)

    @property
    def moved(self) -> float:
        """The mean share of a query's weight that moves, 0…1."""
        return moved_of(self.delta)

    @property
    def too_little_in_common(self) -> str:
        """Message shown instead of numbers if the two sides share less than a quarter of an axis."""
        for axis in (self.rows, self.cols):
            pairs = zip(axis.first, axis.second, strict=True)
            n_both = sum(NO_TOKEN not in pair for pair in pairs)
            if 4 * n_both < len(axis):
                words = f"{plural(n_both, 'token')} in common"
                return f"{words}: too little to compare"
        return ""

    @property
    def is_same(self) -> bool:
        """Whether both sides are the same, cell by cell."""
        return self.peak == 0.0 and bool((np.isfinite(self.first) == np.isfinite(self.second)).all())

    def weights(self, which: Which) -> NDArray[np.float32]:
        """The weights of one side on the shared axes."""
        return self.first if which == "A" else self.second


def compare_maps(
    first: HeadMap,
    second: HeadMap,
    rows: TokenAlignment,
    cols: TokenAlignment,
    *,
    names: tuple[str, str] = ("A", "B"),
    limit: float = 0.0,
    row_names: Rows = "written",
) -> ComparedMaps:
    """Both maps of one head on shared axes, from their exact weights; rows are named by `row_names`."""
    first, second = labelled(first, row_names), labelled(second, row_names)
    placed = on_slots(first.weights, rows, cols, "A"), on_slots(second.weights, rows, cols, "B")
    delta, kinds = difference(*placed)
    side_queries = _placed(first.queries, rows.first), _placed(second.queries, rows.second)
    side_keys = _placed(first.keys, cols.first), _placed(second.keys, cols.second)
    badges = (first.check.badge if first.check else "", second.check.badge if second.check else "")
    return ComparedMaps(
        head=first.head,
        rows=rows,
        cols=cols,
        first=placed[0],
        second=placed[1],
        delta=delta,
        kinds=kinds,
        side_queries=side_queries,
        side_keys=side_keys,
        queries=_merged(*side_queries),
        keys=_merged(*side_keys),
        names=names,
        limit=limit,
        badges=badges,
    )


def cell_words(shown: ComparedMaps, query: int, key: int) -> tuple[str, str]:
    """A cell in two lines: both weights with Δ, and its tokens."""
    sides = [_weight_words(shown.weights(which)[query, key]) for which in ("A", "B")]
    delta = shown.delta[query, key]
    values = f"A {sides[0]}   B {sides[1]}"
    if np.isfinite(delta):
        values += f"   Δ {'+' * bool(delta > 0)}{significant(float(delta))}"
    row = shown.queries[query]
    name = f"“{_slot_name(row)}”"
    name = f"reading “{row.read}”, writing {name}" if row.read else name
    return values, f"query {name} → key “{_slot_name(shown.keys[key])}”"


def _weight_words(weight: float) -> str:
    if np.isnan(weight):
        return "not allowed by the mask"
    if np.isinf(weight):
        return "has no token here"
    return significant(float(weight))


def _placed(tokens: tuple[Token, ...], slots: tuple[int, ...]) -> tuple[Token, ...]:
    return tuple(GAP if i == NO_TOKEN else tokens[i] for i in slots)


def _merged(first: tuple[Token, ...], second: tuple[Token, ...]) -> tuple[Token, ...]:
    """One name for each slot: the token of both, of one, or both with an arrow between them."""
    merged = []
    for a, b in zip(first, second, strict=True):
        if a is GAP or b is GAP or a.label == b.label:
            merged.append(b if a is GAP else a)
        else:
            merged.append(
                Token(
                    id=a.id,
                    piece=f"{a.label} → {b.label}",
                    is_special=a.is_special and b.is_special,
                    joins_previous=a.joins_previous and b.joins_previous,
                    read=a.read if a.read == b.read else f"{a.read} → {b.read}",
                )
            )
    return tuple(merged)


def _slot_name(token: Token) -> str:
    return " ".join(token.label.split()) or "␣"


KIND_WORDS: dict[OutputKind, str] = {
    "next-token": "next token",
    "masked-token": "masked token",
    "translation": "translation",
    "class": "label",
    "nothing": "none: nothing is predicted here",
}
"""Meaning of each kind of output."""


def kind_words(kind: OutputKind, model: ModelInfo | None) -> str:
    """Kind of an output, in words; for a second text, the model's own term, such as a summary."""
    return model.writes if kind == "translation" and model is not None else KIND_WORDS[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRow:
    """One token with its probability before and after; None if it is not among the best there.

    Then it has no more than `before_below` or `after_below`, the least of the best; None: that is not known.
    `name` is what the token is called where another one reads alike; see `records.tokens.told_apart`.
    """

    token: Token
    before: float | None
    after: float | None
    before_below: float | None = None
    after_below: float | None = None
    name: str = ""

    @property
    def sentence(self) -> str:
        return (
            f"{self.name or self.token.piece}: {_percent(self.before)} before, {_percent(self.after)} after"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of generated text, common to both sides or not."""

    text: str
    is_changed: bool


_PIECE, _PROBABILITY, _LARGEST = attrgetter("token.piece"), attrgetter("probability"), itemgetter(0)
_LEAST_SHOWN = 0.0005
_N_ROWS_KEPT = 3
_LEAST_MOVED_NATS = 1e-4
_MOST_LABELS = 60
"""Characters of the labels that are written out."""


def candidate_rows(before: Prediction, after: Prediction, n_rows: int = 8) -> tuple[CandidateRow, ...]:
    """The candidates of both sides as `rows_of_both`, with the least of the best."""
    lows = [min(map(_PROBABILITY, side.candidates), default=None) for side in (before, after)]
    return rows_of_both(before, after, is_by_piece=False, n_rows=n_rows, lows=(lows[0], lows[1]))


def rows_of_both(
    first: Prediction | None,
    second: Prediction | None,
    *,
    is_by_piece: bool,
    n_rows: int = 8,
    lows: tuple[float | None, float | None] = (None, None),
) -> tuple[CandidateRow, ...]:
    """The candidates of both sides, most probable first; `lows` are the smallest of each.

    `is_by_piece` takes pieces that read alike as one: models with different vocabularies number them
    differently. After three rows, those that would round to nothing on both sides are left out.
    """
    found: dict[object, tuple[Token, float | None, float | None]] = {}
    for candidate in first.candidates if first else ():
        token = candidate.token
        key = (token.piece, token.joins_previous) if is_by_piece else token.id
        found[key] = (token, candidate.probability, None)
    for candidate in second.candidates if second else ():
        token = candidate.token
        key = (token.piece, token.joins_previous) if is_by_piece else token.id
        found[key] = (token, found[key][1] if key in found else None, candidate.probability)
    largest = [(max(b or 0.0, a or 0.0), token, b, a) for token, b, a in found.values()]
    largest.sort(key=_LARGEST, reverse=True)
    n_shown = max(len([one for one in largest if one[0] >= _LEAST_SHOWN]), _N_ROWS_KEPT)
    rows = [
        CandidateRow(token=token, before=b, after=a, before_below=lows[0], after_below=lows[1])
        for _, token, b, a in largest[: min(n_shown, n_rows)]
    ]
    if len({*map(_PIECE, rows)}) == len(rows):  # one call fewer at every key: two that read alike are rare
        return tuple(rows)
    names = told_apart([row.token for row in rows])
    return tuple(replace(row, name=name) for row, name in zip(rows, names, strict=True))


def prediction_labels(comparison: Comparison) -> tuple[str, ...]:
    """One label for each selectable prediction."""
    return tuple(prediction.context for prediction in comparison.before.predictions)


def token_labels(output: Output) -> dict[int, str]:
    """The most probable label of each token, by its index; none if labels are of whole texts."""
    if output.kind != "class" or len(output.predictions) < 2:
        return {}
    return {one.position: one.candidates[0].token.piece for one in output.predictions if one.candidates}


def labels_text(output: Output, tokens: Sequence[Token]) -> str:
    """The labels of a text's tokens in a row; for a pointer the tokens pointed to, and their roles."""
    labels = token_labels(output)
    if not output.predictions or NOT_MEANT not in {*labels.values()}:
        return f"says “{_cut(' '.join(labels.values()))}”" if labels else ""
    meant = {place: label for place, label in labels.items() if label != NOT_MEANT}
    if not meant:
        return "points to no token yet"
    pieces = " ".join(tokens[place].piece for place in meant if place < len(tokens))
    return f"points to “{_cut(pieces)}” ({next(iter(meant.values()))})"


def follows_text(comparison: Comparison) -> str:
    """Whether the second text follows the first, before and after; empty if not asked."""
    before, after = comparison.before.follows, comparison.after.follows
    if before is None or after is None:
        return ""
    shown, said = tuple(map(probability_text, (before, after))), tuple(map(next_verdict, (before, after)))
    verdict = said[0] if said[0] == said[1] else f"{said[0]} → {said[1]}"
    changed = f" → {shown[1]}" if shown[0] != shown[1] else ""
    return f"second follows first: {shown[0]}{changed} ({verdict})"


def next_verdict(p_follows: float) -> str:
    """The answer by the names that Devlin et al. 2018 give them."""
    return "IsNext" if p_follows > 0.5 else "NotNext"


COPIED_TIP = (
    "p_gen: the probability that this token is written from the vocabulary; 1 − p_gen: that it is copied from"
    " where the last cross-attention looks, a word that the vocabulary lacks too. (See et al. 2017)\n"
    "With changes to heads: before → after."
)


def copied_text(comparison: Comparison, index: int) -> str:
    """Whether a prediction is generated or copied, before and after; empty if nothing is copied."""
    sides = (comparison.before.p_write, comparison.after.p_write)
    if not all(index < len(side) for side in sides):
        return ""
    shown = [probability_text(side[index]) for side in sides]
    changed = f" → {shown[1]}" if shown[0] != shown[1] else ""
    return f"p_gen {shown[0]}{changed}: {'rather copied' if sides[1][index] < 0.5 else 'rather written'}"


CERTAINTY_TIP = (
    "Certainty: the geometric mean of the probabilities that the model gave to the tokens it generated: one"
    " over the perplexity of its own text. A model that is unsure is more often wrong."
)
UNSURE = 0.6
"""Below this certainty a translation of english-french is more often wrong than right: see Help, Output."""


def certainty_text(comparison: Comparison) -> str:
    """Certainty of the model about its generated text; empty if unknown."""
    value = comparison.before.certainty
    if value is None:
        return ""
    return f"certainty {probability_text(value)}" + (": unsure" if value < UNSURE else "")


def unsure_text(comparison: Comparison) -> str:
    """A warning beside a text if the model is unsure of it; else empty."""
    value = comparison.before.certainty
    if value is None or value >= UNSURE:
        return ""
    return f"Unsure: certainty {probability_text(value)}"


def most_changed_position(comparison: Comparison) -> int:
    """The prediction that the gates changed most, by KL; if none changed, that of the first token pointed to
    for a pointer, else the first.
    """
    values = [value if value == value else 0.0 for value in comparison.kl_nats]
    largest = max(values, default=0.0)
    if largest >= _LEAST_MOVED_NATS:
        return values.index(largest)
    if comparison.before.kind != "class":
        return 0
    labels = [*token_labels(comparison.before).values()]
    return next((k for k, label in enumerate(labels) if NOT_MEANT in labels and label != NOT_MEANT), 0)


def text_difference(before: str, after: str) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
    """Both texts split into stretches of words, common to both or changed."""
    words_before, words_after = _words(before), _words(after)
    matcher = difflib.SequenceMatcher(None, words_before, words_after, autojunk=False)
    left: list[Segment] = []
    right: list[Segment] = []
    for kind, i, i_end, j, j_end in matcher.get_opcodes():
        is_changed = kind != "equal"
        if i < i_end:
            left.append(Segment(text="".join(words_before[i:i_end]), is_changed=is_changed))
        if j < j_end:
            right.append(Segment(text="".join(words_after[j:j_end]), is_changed=is_changed))
    return tuple(left), tuple(right)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_LABELS else f"{text[: _MOST_LABELS - 1]}…"


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+$", text)


def _percent(probability: float | None) -> str:
    return "not among the best" if probability is None else probability_text(probability)


_LEAST_NATS = 5e-7


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureDifference:
    """One measure of one head on both sides; NaN where it does not apply."""

    kind: MeasureKind
    first: float
    second: float

    @property
    def delta(self) -> float:
        return self.second - self.first

    @property
    def texts(self) -> tuple[str, str, str]:
        """A, B and Δ as people read them."""
        digits = self.kind.digits + 1
        first, second = (fixed(v, digits if abs(v) < 999.95 else 0) for v in (self.first, self.second))
        return (first, second, with_sign(self.delta, digits))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedAnswer:
    """A prediction of A, of B, or of both at corresponding positions.

    `pair` are their numbers in both outputs; None where one side has no such position.
    """

    label: str
    first: Prediction | None
    second: Prediction | None
    pair: tuple[int, int] | None


def measure_differences(
    first: Traced | None, second: Traced | None, head: HeadRef | None, second_head: HeadRef | None
) -> tuple[MeasureDifference, ...]:
    """Every measure of a head of A against a head of B; empty if neither exists."""
    own = find_measures(first.measures, head) if first and head else None
    other = find_measures(second.measures, second_head) if second and second_head else None
    if own is None and other is None:
        return ()
    return tuple(
        MeasureDifference(
            kind=kind,
            first=float(getattr(own, kind.field)) if own else math.nan,
            second=float(getattr(other, kind.field)) if other else math.nan,
        )
        for kind in MEASURES
    )


def pair_answers(first: Traced, second: Traced, way: Way) -> tuple[PairedAnswer, ...]:
    """Outputs of both models, position by position.

    One answer of each side belongs together; several are paired as the tokens they stand at.
    """
    own, other = first.comparison.after.predictions, second.comparison.after.predictions
    if len(own) == len(other) == 1:
        return (_paired(own, other, 0, 0),)
    tokens = [(t.target if t.target is not None else t.source).tokens for t in (first, second)]
    aligned = align_tokens(tokens[0], tokens[1], way)
    places = [{p.position: k for k, p in enumerate(side)} for side in (own, other)]
    found = []
    for i, j in zip(aligned.first, aligned.second, strict=True):
        at = places[0].get(i) if i != NO_TOKEN else None
        other_at = places[1].get(j) if j != NO_TOKEN else None
        if at is not None or other_at is not None:
            found.append(_paired(own, other, at, other_at))
    return tuple(found)


def kl_words(kl_nats: tuple[float, ...], at: int) -> str:
    """KL of one prediction with its unit, three significant digits; a dash where it is not defined."""
    value = kl_nats[at] if 0 <= at < len(kl_nats) else math.nan
    if not math.isfinite(value):
        return "KL –"
    return "KL 0 nats" if value < _LEAST_NATS else f"KL {number_text(value, 3)} nats"


def most_apart(kl_nats: tuple[float, ...]) -> int:
    """The pair of answers that are furthest apart; the first if none differ."""
    values = [value if math.isfinite(value) else 0.0 for value in kl_nats]
    largest = max(values, default=0.0)
    return values.index(largest) if largest > _LEAST_NATS else 0


def _paired(
    own: tuple[Prediction, ...], other: tuple[Prediction, ...], at: int | None, other_at: int | None
) -> PairedAnswer:
    first = own[at] if at is not None else None
    second = other[other_at] if other_at is not None else None
    labels = [side.context if side else "" for side in (first, second)]
    if first is None or second is None:
        label = f"{labels[0] or labels[1]}, only in {'A' if second is None else 'B'}"
    else:
        label = labels[0] if labels[0] == labels[1] else f"{labels[0]} | {labels[1]}"
    pair = (at, other_at) if at is not None and other_at is not None else None
    return PairedAnswer(label=label, first=first, second=second, pair=pair)
