"""Linear probes of the layers of a model (`analysis/probing.py`), as an experiment."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from attnscope.analysis.probing import ProbeTasks, read_words
from attnscope.errors import UserError
from attnscope.models import load
from attnscope.nn.long_work import as_news
from attnscope.records.experiments import ExperimentNews, ProbeFinding, ProbeLayer, ProbeQuestion
from attnscope.text.corpora import TaggedText, read_tagged, tagged_example
from attnscope.text.tasks import make_task
from attnscope.workers.experiments import GetModel, experiment_of_model

PROBED = "stories-masked"
_TASK = "tagging"
_ONE_IN = 4
_LEAST = 8
_TEXTS_A_PIECE = 4
_LAYER_COUNTS = 20
"""As how many sentences a layer counts in what is said of progress: its probes take about as long."""
Texts = list[tuple[TaggedText, bool]]
"""Sentences, and whether each is held out."""


@experiment_of_model(ProbeQuestion)
def probe_model(question: ProbeQuestion, get_model: GetModel) -> Iterator[ExperimentNews]:
    """Yield news after a few sentences, and after each layer."""
    texts, of_texts = asked_sentences(question)
    yield ExperimentNews(n_done=0, n_total=0)
    model = get_model() if question.model and not question.source else load(question.source or PROBED)
    if model.info.is_recorded or model.info.reads != "text":
        raise UserError(
            f"{model.info.name} does not read sentences.",
            expected="a model of texts",
            action="Open another model.",
        )

    def news(step: tuple[int, int]) -> ExperimentNews | None:
        n_read, n_layers = step
        n_total = len(texts) + n_layers * _LAYER_COUNTS
        is_told = n_read % _TEXTS_A_PIECE == 0
        return ExperimentNews(n_done=n_read, n_total=n_total) if is_told else None

    reader = read_words(model, [text for text, _ in texts], question.piece)
    found = yield from as_news(reader, news)
    is_out = np.array([is_held_out for _, is_held_out in texts])
    tasks = ProbeTasks(found, is_out[found.text], question.seed)
    n_layers = len(found.x)
    n_total = len(texts) + n_layers * _LAYER_COUNTS
    layers: list[ProbeLayer] = []

    def of_layer(n_before: int, n_steps: int) -> ExperimentNews:
        n_done = n_before + min(n_steps, _LAYER_COUNTS - 1)
        return ExperimentNews(n_done=n_done, n_total=n_total)

    for layer in range(n_layers):
        n_done = len(texts) + layer * _LAYER_COUNTS
        steps = tasks.layer(layer, question.strength)
        layers.append((yield from as_news(steps, partial(of_layer, n_done))))
        finding = ProbeFinding(
            question=question,
            name=model.info.name,
            text=of_texts,
            labels=tasks.labels,
            layers=tuple(layers),
            n_layers=n_layers,
            majority=tasks.majority,
            word_alone=tasks.word_alone,
            n_trained=int((~is_out[found.text]).sum()),
            n_held_out=int(is_out[found.text].sum()),
            n_sentences_out=len(np.unique(found.text[is_out[found.text]])),
            n_unread=found.n_unread,
            unknown_share=found.n_unknown / found.n_pieces,
        )
        yield ExperimentNews(
            n_done=n_done + _LAYER_COUNTS, n_total=n_total, finding=finding, is_done=layer + 1 == n_layers
        )


def asked_sentences(question: ProbeQuestion) -> tuple[Texts, str]:
    """The sentences, and their name; raises UserError if there are too few."""
    n_out = question.n_sentences // _ONE_IN
    if not question.file:
        task = make_task(_TASK)
        parts = (
            (task.examples(question.n_sentences - n_out, seed=question.seed), False),
            (task.examples(n_out, seed=question.seed, held_out=True), True),
        )
        found = [(tagged_example(example), is_out) for examples, is_out in parts for example in examples]
        return found, f"the task {_TASK}"
    path = Path(question.file).expanduser()
    texts: Sequence[TaggedText] = read_tagged(path, question.column)[: question.n_sentences]
    if len(texts) < _LEAST:
        raise UserError(
            f"{path.name} has {len(texts)} sentences with labels.",
            expected=f"{_LEAST} or more",
            action="Choose another file.",
        )
    order = np.random.default_rng(question.seed).permutation(len(texts))
    held_out = set(order[: max(1, len(texts) // _ONE_IN)].tolist())
    return [(text, number in held_out) for number, text in enumerate(texts)], path.name
