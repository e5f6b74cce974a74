"""A head's role, in one sentence with the number behind it.

| role       | number                                      | from  | after                             |
|------------|---------------------------------------------|-------|-----------------------------------|
| positional | rows whose largest weight is at one offset  | 0.90  | Voita et al. 2019, section 5.1    |
|            | or weight at one offset                     | 0.50  | Clark et al. 2019, section 3.1    |
| identity   | the same at offset 0                        |       |                                   |
| induction  | the stripe on random tokens written twice   | 0.40  | Olsson et al. 2022                |
| duplicate  | weight on earlier equal tokens              | 0.40  | Nanda and Bloom 2022              |
| first      | weight on the first key                     | 0.50  | Xiao et al. 2024 (attention sink) |
| separator  | weight on other special tokens              | 0.50  | Clark et al. 2019, section 3.2    |
| syntactic  | arcs above the best fixed offset, low end   | +0.10 | Voita et al. 2019, section 5.2    |
| rare       | texts whose leading word is a rare one      | 0.50  | Voita et al. 2019, section 5.3    |
| broad      | entropy of the largest possible             | 0.90  | Clark et al. 2019, section 3.3    |
| aligns     | 1 − alignment error rate, gold word links   | 0.50  | Och and Ney 2003, section 5.1     |
|            | and above the diagonal's, or from           | 0.75  |                                   |

Rows of special tokens are left out where places are judged (offset, itself, first, separators): many heads
rest there. The strongest role makes the sentence; resting on the first token or on separators, and looking
at all alike, rank behind whatever says more. A syntactic head lies above the best fixed offset by
definition, so it ranks with its margin. Rare words lead a few texts by chance, and rare relations a few
sentences: there the lower end of the interval counts, and of fewer than ten texts rare words say nothing.
Nor do they say anything of a head that looks at one place in nearly every row, or at all alike: where the
texts resemble each other, a rare word may lie in that place. Words are compared with words only: a special
token may get more than any. A head without a role is told by the largest share there is; below 0.2 nothing
stands out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from attnscope.analysis.corpus_texts import Text, show_texts
from attnscope.counting import plural
from attnscope.models.model import Model
from attnscope.nn import stop_if_unwanted
from attnscope.records.findings import SYNTACTIC_MARGIN, AlignmentTable, SyntaxTable
from attnscope.records.measures import Estimate, HeadCard, HeadTable, Role, RoleName
from attnscope.records.sites import HeadRef, Site

OFFSET, STANDS_OUT = 0.50, 0.20
POSITIONAL, INDUCTION, DUPLICATE, SINK, RARE, BROAD = 0.90, 0.40, 0.40, 0.50, 0.50, 0.90
ALIGNS, ALIGNS_WELL = 0.50, 0.75
_FEWEST_TEXTS = 10
_WITHOUT_WORDS: tuple[RoleName, ...] = ("positional", "identity", "broad")
"""Roles of heads whose weights hardly depend on which words there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfMeasure:
    """A role that heads have from a `threshold` of one measure on.

    `leaning` says what a head without a role does most, `ordinary` how much of it says nothing. What
    `comes_by_chance` needs enough texts and counts with its lower end; what `says_little` ranks last.
    """

    name: RoleName
    measure: str
    threshold: float
    sentence: str
    leaning: str = ""
    ordinary: float = 0.0
    comes_by_chance: bool = False
    says_little: bool = False


_STRIPE = (
    "attends to what followed the same token before: {value} of its weight on random tokens written twice"
)
_OF_MEASURES = (
    _OfMeasure(name="induction", measure="stripe", threshold=INDUCTION, sentence=_STRIPE, leaning=_STRIPE),
    _OfMeasure(
        name="duplicate",
        measure="duplicate_mul",
        threshold=DUPLICATE,
        sentence="attends to earlier tokens equal to its own: {value} of its weight {over} that repeat one",
        leaning="attends to earlier equal tokens: {value} of its weight",
    ),
    _OfMeasure(
        name="first",
        measure="first",
        threshold=SINK,
        sentence="rests on the first {column}: {value} of its weight {over}",
        leaning="rests on the first {column}: {value} of its weight",
        says_little=True,
    ),
    _OfMeasure(
        name="separator",
        measure="separator",
        threshold=SINK,
        sentence="rests on separators: {value} of its weight {over}",
        leaning="rests on separators: {value} of its weight",
        says_little=True,
    ),
    _OfMeasure(
        name="rare",
        measure="rare",
        threshold=RARE,
        sentence="of the words, attends most to one of the two rarest: in {value} of the texts {over}",
        comes_by_chance=True,
    ),
    _OfMeasure(
        name="broad",
        measure="entropy",
        threshold=BROAD,
        sentence="spreads its weight almost evenly: entropy {value} of the largest possible {over}",
        leaning="spreads its weight: entropy {value} of the largest possible",
        ordinary=0.5,
        says_little=True,
    ),
)
_LAST = {kind.name for kind in _OF_MEASURES if kind.says_little}
_LEANINGS = {
    "offset": ("attends to {place}: {value} of its weight", 0.0),
    **{kind.measure: (kind.leaning, kind.ordinary) for kind in _OF_MEASURES if kind.leaning},
}
"""How to say what a head without a role does most, and how much of it says nothing."""


def find_roles(
    head: HeadRef,
    table: HeadTable,
    syntax: SyntaxTable | None = None,
    alignment: AlignmentTable | None = None,
    *,
    column: str = "token",
) -> tuple[Role, ...]:
    """The roles of a head, the most telling first; `column` names a column of its map."""
    found = (*_measured(head, table, column), _syntactic(head, syntax), _aligning(head, alignment))
    roles = [role for role in found if role is not None]
    if any(role.name in _WITHOUT_WORDS for role in roles):
        roles = [role for role in roles if role.name != "rare"]
    return tuple(sorted(roles, key=lambda role: (role.name in _LAST, -role.strength)))


def head_card(
    head: HeadRef,
    table: HeadTable,
    syntax: SyntaxTable | None = None,
    alignment: AlignmentTable | None = None,
    *,
    model: Model | None = None,
    texts: Sequence[Text] = (),
    tree_texts: Sequence[Text] = (),
    sites: Sequence[Site] = (),
) -> HeadCard:
    """A head's card, with its most telling texts if the model and the measured texts are given.

    `texts` are those of the table, `tree_texts` those of the trees; `sites` say where columns are no tokens.
    Raises KeyError for an unknown head.
    """
    stop_if_unwanted()
    is_of_tokens = all(s.keys == "tokens" for s in sites if s.key == (head.stack, head.layer))
    column = "token" if is_of_tokens else "column"
    roles = find_roles(head, table, syntax, alignment, column=column)
    leaning = _strongest(head, table)
    sentence = roles[0].sentence if roles else _undecided(head, table, column)
    is_syntactic = bool(roles) and roles[0].name == "syntactic" and syntax is not None
    if is_syntactic and syntax is not None:
        best = syntax.best(head) or 0
        telling = [int(n) for n in syntax.telling[syntax.heads.index(head), best] if n >= 0]
        corpus = tree_texts
    else:
        measured = [role.measure for role in roles if role.measure in table.names]
        telling = list(table.telling_texts(head, measured[0] if measured else leaning))
        corpus = texts
    measure = roles[0].measure if roles else leaning
    has_texts = model is not None and len(corpus) > 0
    shown = show_texts(model, head, corpus, telling, measure) if model is not None and has_texts else ()
    return HeadCard(
        head=head,
        sentence=sentence,
        roles=roles,
        texts=shown,
        leaning=leaning if not roles and _stands_out(head, table, leaning) else "",
        statement=_statement(head, table, syntax if is_syntactic else None, alignment),
    )


def _measured(head: HeadRef, table: HeadTable, column: str) -> list[Role | None]:
    return [_positional(head, table), *(_of_measure(kind, head, table, column) for kind in _OF_MEASURES)]


def _positional(head: HeadRef, table: HeadTable) -> Role | None:
    """Whether one offset takes nearly every row, or half of the weight."""
    offset = table.heaviest_offset(head)
    if offset is None:
        return None
    rows, weight = table.estimate(head, "positional"), table.estimate(head, "offset")
    is_frequent = table.best_offsets[table.heads.index(head)] == offset and rows.value >= POSITIONAL
    if not is_frequent and not weight.value >= OFFSET:
        return None
    measure = {-1: "previous", 0: "diagonal"}.get(offset, "offset")
    shown = table.estimate(head, measure)
    return Role(
        name="identity" if offset == 0 else "positional",
        sentence=f"attends to {place_of(offset)}: {shown.value:.2f} of its weight"
        f" over {plural(table.n_texts, 'text')}{shown.interval}",
        strength=max(rows.value / POSITIONAL if is_frequent else 0.0, weight.value / OFFSET),
        estimate=rows if is_frequent else weight,
        measure=measure,
    )


def _of_measure(kind: _OfMeasure, head: HeadRef, table: HeadTable, column: str) -> Role | None:
    estimate = table.estimate(head, kind.measure)
    least = estimate.least if kind.comes_by_chance else estimate.value
    if not least >= kind.threshold or (kind.comes_by_chance and estimate.n < _FEWEST_TEXTS):
        return None
    over = f"over {plural(table.n_texts, 'text')}"
    return Role(
        name=kind.name,
        sentence=kind.sentence.format(value=f"{estimate.value:.2f}", column=column, over=over)
        + estimate.interval,
        strength=estimate.value / kind.threshold,
        estimate=estimate,
        measure=kind.measure,
    )


def _syntactic(head: HeadRef, syntax: SyntaxTable | None) -> Role | None:
    if syntax is None or head not in syntax.heads:
        return None
    best = syntax.best(head)
    if best is None:
        return None
    row = syntax.heads.index(head)
    margin = syntax.estimate(row, best).least - float(syntax.baseline[row, best])
    if not margin >= SYNTACTIC_MARGIN:
        return None
    relation, direction = syntax.relations[best]
    n_arcs = int(syntax.n_arcs[row, best])
    estimate = syntax.estimate(row, best)
    looks = "from a word to its head" if direction == "to head" else "from a head to its word"
    return Role(
        name="syntactic",
        sentence=(
            f"follows {relation} {looks}: {estimate.value:.2f} of {n_arcs:,} arcs against"
            f" {float(syntax.baseline[row, best]):.2f} at the best fixed offset"
            f" ({int(syntax.offsets[row, best]):+d}){estimate.interval}"
        ),
        strength=1 + margin,
        estimate=estimate,
        measure="syntactic",
    )


def _aligning(head: HeadRef, alignment: AlignmentTable | None) -> Role | None:
    """Whether a head of cross-attention shows which word translates which."""
    if alignment is None or head not in alignment.heads:
        return None
    row, n = alignment.heads.index(head), alignment.n_texts
    rate, low, high = (float(part[row]) for part in (alignment.error_rate, alignment.low, alignment.high))
    is_above_chance = math.isnan(alignment.diagonal) or not high > max(alignment.diagonal, 1 - ALIGNS_WELL)
    if not (1 - rate >= ALIGNS and is_above_chance):
        return None  # a head that only follows the order of the words does not know which one it translates
    pairs = plural(n, "pair")
    estimate = Estimate(value=rate, low=low, high=high, n=n, of="pair")
    precision, recall = _alignment_estimates(alignment, row)
    return Role(
        name="aligns",
        sentence=(
            f"aligns (AER {rate:.2f}{estimate.interval}): its strongest words are the gold links of {pairs}"
            f" with precision {precision.text} and recall {recall.text}"
        ),
        strength=(1 - rate) / ALIGNS,
        estimate=estimate,
        measure="alignment",
    )


def _alignment_estimates(alignment: AlignmentTable, row: int) -> tuple[Estimate, Estimate]:
    """Precision and recall of one row, with their intervals."""
    parts = (
        (alignment.precision, alignment.precision_low, alignment.precision_high),
        (alignment.recall, alignment.recall_low, alignment.recall_high),
    )
    first, second = (
        Estimate(value=float(value[row]), low=float(low[row]), high=float(high[row]), n=alignment.n_texts)
        for value, low, high in parts
    )
    return first, second


def _statement(
    head: HeadRef, table: HeadTable, syntax: SyntaxTable | None, alignment: AlignmentTable | None
) -> str:
    """The basis of a card's numbers, and what is missing for a head of cross-attention."""
    said = table.statement if syntax is None else syntax.statement
    if head.stack != "cross":
        return said
    if alignment is None:
        return f"{said}; whether it aligns words is not known: there are no gold links of these texts"
    if head not in alignment.heads:
        return said
    row = alignment.heads.index(head)
    precision, recall = _alignment_estimates(alignment, row)
    return (
        f"{said}; alignment error rate {float(alignment.error_rate[row]):.2f} over {alignment.n_texts:,}"
        f" pairs with gold links, precision {precision.text}, recall {recall.text}"
    )


def _undecided(head: HeadRef, table: HeadTable, column: str) -> str:
    measure = _strongest(head, table)
    estimate = table.estimate(head, measure)
    if estimate.value != estimate.value:
        return "no measure is defined on these texts"
    place = place_of(table.heaviest_offset(head) or 0)
    said = _LEANINGS[measure][0].format(value=f"{estimate.value:.2f}", place=place, column=column)
    why = "has no single role" if _stands_out(head, table, measure) else "nothing stands out"
    why = "too few texts for a role" if table.n_texts < _FEWEST_TEXTS else why
    return f"{why}; most of all it {said}{estimate.interval}"


def _strongest(head: HeadRef, table: HeadTable) -> str:
    """The most telling measure: the largest weight, or entropy if it lies far above a half."""
    return max(_LEANINGS, key=lambda name: _size(head, table, name))


def _stands_out(head: HeadRef, table: HeadTable, measure: str) -> bool:
    return _size(head, table, measure) >= STANDS_OUT


def _size(head: HeadRef, table: HeadTable, name: str) -> float:
    value = table.estimate(head, name).value
    return -1.0 if value != value else value - _LEANINGS[name][1]


def place_of(offset: int) -> str:
    """The token at an offset, in words."""
    names = {-1: "the previous token", 0: "the token itself", 1: "the next token"}
    side = "before" if offset < 0 else "after"
    return names.get(offset, f"the token {abs(offset)} positions {side}")
