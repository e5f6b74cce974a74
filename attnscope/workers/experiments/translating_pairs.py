"""BLEU of a translation model, as an experiment: a few pairs at a time are translated and scored.

Each source is translated once, with all the references that its lines have. Short sources come first, so the
score on the way is one of short sentences.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from attnscope.analysis.metrics import BleuScore, bleu, by_length, matched_ngrams, require_counter
from attnscope.analysis.words import everyday_pairs
from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.models import load
from attnscope.models.writing.translating import Translation, translate_texts
from attnscope.records.experiments import (
    BleuFinding,
    BleuNumbers,
    BleuPart,
    BleuQuestion,
    BleuText,
    ExperimentNews,
)
from attnscope.records.outputs import WriteSettings
from attnscope.text.corpora import is_kept_out, read_pairs, sources_once
from attnscope.workers.experiments import GetModel, experiment_of_model

TRANSLATOR = "english-french"
WORDS_A_PART = 5
_TEXTS_A_PIECE = 4
_TEXTS_A_SCORE = 20
Texts = list[tuple[str, tuple[str, ...]]]
"""Sources, each with its references."""


@experiment_of_model(BleuQuestion)
def bleu_of_model(question: BleuQuestion, get_model: GetModel) -> Iterator[ExperimentNews]:
    """Yield news after every few translations; interval and parts with the last."""
    require_counter()
    texts, pairs = asked_texts(question)
    yield ExperimentNews(n_done=0, n_total=len(texts))
    model = get_model() if question.model else load(TRANSLATOR, "cpu")
    written: list[Translation] = []
    told: list[BleuText] = []
    settings = WriteSettings(mode=question.way, n_beams=question.n_beams)
    sources = [source for source, _ in texts]
    for one in translate_texts(model, sources, settings, batch_size=_TEXTS_A_PIECE):
        written.append(one)
        told.append(_text_of(one, texts))
        if len(written) % _TEXTS_A_PIECE == 0 and len(written) < len(texts):
            has_score = len(written) % _TEXTS_A_SCORE == 0
            finding = _finding(question, model.info.name, pairs, told, written) if has_score else None
            yield ExperimentNews(n_done=len(written), n_total=len(texts), finding=finding)
    finding = _finding(question, model.info.name, pairs, told, written, is_whole=True)
    yield ExperimentNews(n_done=len(texts), n_total=len(texts), finding=finding, is_done=True)


def asked_texts(question: BleuQuestion) -> tuple[Texts, str]:
    """The sources with their references, and the name of the pairs; raises UserError without any."""
    if not question.file:
        usual = [pair.usual for pair in everyday_pairs() if pair.usual is not None]
        return _once(usual)[: question.n_pairs], "everyday English–French pairs of the program"
    path = Path(question.file).expanduser()
    found = read_pairs(path)
    if question.held_out:
        found = [pair for pair in found if is_kept_out(pair[0], question.held_out)]
    if not found:
        raise UserError(
            f"{path.name} has no pair that is held out with a share of {question.held_out:g}."
            if question.held_out
            else f"{path.name} has no pairs.",
            expected="a source, a tab and its translation on each line",
            action="Choose another file" + (", or set held out to 0." if question.held_out else "."),
        )
    return _once(found)[: question.n_pairs], path.name


def _once(pairs: Sequence[tuple[str, str]]) -> Texts:
    sources, references = sources_once([a for a, _ in pairs], [(b,) for _, b in pairs])
    return list(zip(sources, references, strict=True))


def _text_of(one: Translation, texts: Texts) -> BleuText:
    source, references = texts[one.index]
    words, matches = matched_ngrams(one.text, references)
    return BleuText(
        index=one.index,
        source=source,
        written=one.text,
        references=references,
        words=words,
        matches=matches,
    )


def _finding(
    question: BleuQuestion,
    name: str,
    pairs: str,
    told: Sequence[BleuText],
    written: Sequence[Translation],
    *,
    is_whole: bool = False,
) -> BleuFinding:
    """Finding for the texts done; intervals and parts once complete."""
    told = sorted(told, key=lambda text: text.index)
    score = bleu([text.written for text in told], [text.references for text in told], has_interval=is_whole)
    parts: tuple[BleuPart, ...] = ()
    if is_whole:
        sources, references = [text.source for text in told], [text.references for text in told]
        found = by_length(sources, [text.written for text in told], references, WORDS_A_PART)
        parts = tuple(BleuPart(first=a, last=b, score=numbers_of(one)) for a, b, one in found)
    return BleuFinding(
        question=question,
        name=name,
        pairs=f"{plural(len(told), 'sentence')}: {pairs}",
        texts=tuple(told),
        score=numbers_of(score),
        parts=parts,
        n_cut=sum(not one.has_ended for one in written),
        signature=score.signature,
    )


def numbers_of(score: BleuScore) -> BleuNumbers:
    return BleuNumbers(
        value=score.value,
        low=score.low,
        high=score.high,
        precisions=score.precisions,
        brevity=score.brevity,
        n_texts=score.n_texts,
        n_words=score.n_words,
        n_right_words=score.n_right_words,
    )
