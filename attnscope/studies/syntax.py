"""What a masked model looks at, and its syntactic heads (Clark et al. 2019, sections 3, 4.2 and 6).

Without a model the recipe masked-english is trained on the corpus, and its untrained start is the control;
without a corpus either, the stories-masked demo is looked at. Trees give the arcs, and the sentences to
look at. An arc counts as found as in their paper: see the manner `clark` in `analysis/syntax.py`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attnscope.analysis.conllu import Tree, read_conllu
from attnscope.analysis.corpus_texts import own_texts
from attnscope.analysis.syntax import MIN_ARCS, measure_syntax
from attnscope.models import Model, load
from attnscope.records.importance import Progress
from attnscope.records.measures import CorpusProgress
from attnscope.records.word_tables import MANNERS_SAID, SyntaxTable
from attnscope.studies.catalogue import find_card
from attnscope.studies.looking import PLACES, Looks, look
from attnscope.studies.runs import QUICK, checkpoints_of, run_folder, train_study
from attnscope.studies.study import Cell, Choices, Study
from attnscope.studies.syntax_charts import syntax_charts
from attnscope.studies.syntax_rows import best_heads, look_rows, syntax_rows

RECIPE = "masked-english"
_DEMO = "stories-masked"
_N_TREES = 1000
_TINY = {**QUICK, "model.n_layers": "2", "tokenizer.vocab_size": "300"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was measured of one model: where its heads look, and which arcs they find."""

    looks: Looks
    syntax: SyntaxTable | None = None


def reproduce(choices: Choices) -> Iterator[Progress | Study]:
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


def see(model: Model, trees: Sequence[Tree], *, n_texts: int, min_arcs: int) -> Iterator[Progress | Seen]:
    """Look at a model with the sentences of the trees, or with the texts that the program has for it."""
    texts = [tree.text for tree in trees] or [t for t in own_texts(model, n_texts)[0] if isinstance(t, str)]
    syntax = None
    for event in measure_syntax(model, trees, min_arcs=min_arcs, manner="clark") if trees else ():
        if isinstance(event, CorpusProgress):
            yield Progress(n_done=event.n_done, n_total=event.n_total, about="following trees")
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
    card, looks = find_card("syntax"), seen.looks
    control = None if start is None else start.syntax
    more = (*(() if trees else (_NO_TREES,)), *(() if start is not None else (_NO_TRAINING,)))
    return Study(
        name=card.name,
        paper=card.paper,
        question=card.question,
        setting=tuple(_setting(choices, model, seen, has_start=start is not None)),
        comparisons=(
            *look_rows(looks, None if start is None else start.looks),
            *syntax_rows(seen.syntax, control, trees),
        ),
        differences=(*_DIFFERENCES, *more),
        charts=syntax_charts(looks, best_heads(seen.syntax), best_heads(control)),
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
