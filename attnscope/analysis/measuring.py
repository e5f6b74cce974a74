"""All that a pass over texts tells of the heads, part by part: measures, relations, alignment, and cards."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from attnscope.analysis.corpus import measure_corpus
from attnscope.analysis.corpus_texts import Text
from attnscope.analysis.gold_links import AlignedPair
from attnscope.analysis.roles import head_card
from attnscope.analysis.syntax import measure_syntax
from attnscope.analysis.word_alignment import measure_alignment
from attnscope.conllu import Tree
from attnscope.errors import UserError, of_wrong_kind
from attnscope.models.inputs import Inputs
from attnscope.models.model import Model
from attnscope.records.findings import Findings
from attnscope.records.measures import CorpusProgress, HeadTable, SpecialTokens
from attnscope.records.word_tables import AlignmentTable, SyntaxTable

_Step = CorpusProgress | HeadTable | SyntaxTable | AlignmentTable


def measure_parts(
    model: Model,
    texts: Sequence[Text | Inputs],
    *,
    trees: Sequence[Tree] = (),
    pairs: Sequence[AlignedPair] = (),
    name: str = "",
    specials: SpecialTokens = "kept",
    seed: int = 0,
) -> Iterator[CorpusProgress | Findings]:
    """Progress after each batch, and the findings at last.

    A part that fails takes none of the finished ones along. What the person can mend becomes one of the
    notes; of any other fault the findings come first, with a note, and then it rises. Raises UserError when
    not even the measures can be had.
    """
    corpus = measure_corpus(model, texts, name=name, specials=specials, seed=seed)
    parts: list[tuple[str, str, Iterator[_Step]]] = [("Measuring heads", "The induction scores", corpus)]
    if trees:
        parts.append(("Reading trees", "The relations of words", measure_syntax(model, trees, name=name)))
    if pairs:
        aligning = measure_alignment(model, pairs, name=name, seed=seed)
        parts.append(("Aligning words", "The alignment of words", aligning))
    tables: dict[type, _Step] = {}
    notes: list[str] = []
    for what, missing, steps in parts:
        try:
            for step in steps:
                if isinstance(step, CorpusProgress):
                    yield replace(step, what=what)
                else:
                    tables[type(step)] = step
        except UserError as error:
            if HeadTable not in tables:
                raise
            notes.append(f"{missing} could not be measured: {error}")
        except Exception:
            if HeadTable in tables:
                notes.append(f"{missing} could not be measured because of a fault in AttnScope.")
                yield _findings(model, tables, notes)
            raise
    yield _findings(model, tables, notes)


def measure_texts(
    model: Model,
    texts: Iterable[Text],
    *,
    name: str = "",
    specials: SpecialTokens = "kept",
    seed: int = 0,
) -> Findings:
    """What every head does over many texts, as numbers with intervals and as words.

    `texts` are strings, or pairs of source and target for a translation model, whose encoder alone is
    measured without targets; blank ones are passed over. Measures are means over the texts: weights and
    shares from 0 to 1, distances in tokens, entropies in nats where their name says so (`found.table.names`).
    `specials` keeps special tokens, drops their rows and columns ("dropped"), or makes the rest of each row
    sum to 1 as well ("renormalised").

        found = at.measure_texts(model, ["The cat sat.", "A dog ran."])
        found.rows()           # a list of dicts, one for each head; NaN where a measure does not apply
        found.to_dict()        # everything, for JSON
        found.save_csv("heads.csv")
        found.table.values     # float32 [n_heads, n_measures]

    Raises UserError for no texts, or for targets of only some.
    """
    if not isinstance(model, Model):
        raise of_wrong_kind(model, "what is to be measured", "a model", "Open one first: at.load(...).")
    some = [texts] if isinstance(texts, str) else list(texts)
    for one in some:
        if not isinstance(one, str) and not (isinstance(one, tuple) and [*map(type, one)] == [str, str]):
            raise of_wrong_kind(one, "one of the texts", "a string, or a tuple of source and target")
    some = [one for one in some if (one if isinstance(one, str) else one[0]).strip()]
    steps = list(measure_parts(model, some, name=name, specials=specials, seed=seed))
    if not isinstance(steps[-1], Findings):
        raise AssertionError("unreachable: the last thing a measuring pass gives is its findings")
    return steps[-1]


def _findings(model: Model, tables: dict[type, _Step], notes: Sequence[str]) -> Findings:
    table, syntax, alignment = (tables.get(kind) for kind in (HeadTable, SyntaxTable, AlignmentTable))
    if not isinstance(table, HeadTable):
        raise AssertionError("unreachable: a pass that ends has its table")
    syntax = syntax if isinstance(syntax, SyntaxTable) else None
    alignment = alignment if isinstance(alignment, AlignmentTable) else None
    return Findings(
        table=table,
        cards=tuple(head_card(head, table, syntax, alignment, sites=model.sites) for head in table.heads),
        syntax=syntax,
        alignment=alignment,
        notes=tuple(notes),
    )
