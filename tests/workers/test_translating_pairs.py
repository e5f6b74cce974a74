"""BLEU of a translator as an experiment: what is read, what comes on the way, and the score at the end."""

import math
from itertools import pairwise
from pathlib import Path

import pytest
import sacrebleu
from worker_tools import ask, train_to_end

from attnscope.errors import UserError
from attnscope.models import load
from attnscope.records import (
    BleuFinding,
    BleuQuestion,
    ExperimentNews,
    Failed,
    LoadModel,
    RunExperiment,
    StopWork,
    WriteSettings,
)
from attnscope.text import is_kept_out
from attnscope.text.tasks import make_task
from attnscope.workers import Engine
from attnscope.workers.experiments import work_on

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifty sentences of the toy grammar with the right translations, one of them twice."""
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    examples = make_task("english-french").examples(50, seed=5, held_out=True)
    lines = [f"{one.source}\t{one.target}\n" for one in examples]
    path.write_text("".join([*lines, f"{examples[0].source}\tquelque chose d'autre\n"]), encoding="utf-8")
    return path


def test_that_the_score_is_sacrebleus_of_what_the_model_writes(pairs: Path) -> None:
    question = BleuQuestion(model="open", file=str(pairs), n_pairs=24)
    model = load("grammar", "cpu")
    news = list(work_on(question, 7, lambda: model))
    assert [one.n_done for one in news] == sorted({0, 24, *range(4, 24, 4)})
    assert {one.number for one in news} == {7}
    assert [one.is_done for one in news] == [False] * (len(news) - 1) + [True]
    found = news[-1].finding
    assert isinstance(found, BleuFinding)
    assert (found.name, len(found.texts)) == ("grammar", 24)
    assert found.pairs.endswith("pairs.tsv")
    assert [text.index for text in found.texts] == list(range(24))
    references: dict[str, list[str]] = {}
    for line in pairs.read_text(encoding="utf-8").splitlines():
        source, target = line.split("\t")
        references.setdefault(source, []).append(target)
    asked = [(source, tuple(targets)) for source, targets in references.items()][:24]
    assert [(text.source, text.references) for text in found.texts] == asked
    assert len(found.texts[0].references) == 2  # of the source that stands on two lines
    for text in found.texts[:5]:
        assert text.written == model.write(text.source, WriteSettings(mode="greedy")).text.text
    streams = [[t.references[0] for t in found.texts], [(*t.references, None)[1] for t in found.texts]]
    whole = sacrebleu.corpus_bleu([t.written for t in found.texts], streams)
    assert found.score.value == pytest.approx(whole.score)
    assert found.score.low <= found.score.value <= found.score.high
    assert (found.score.n_words, found.score.n_right_words) == (whole.sys_len, whole.ref_len)
    assert sum(part.score.n_texts for part in found.parts) == 24
    assert all(a.last < b.first for a, b in pairwise(found.parts))


def test_that_on_the_way_there_is_a_score_without_an_interval(pairs: Path) -> None:
    model = load("grammar", "cpu")
    news = list(work_on(BleuQuestion(model="x", file=str(pairs), n_pairs=40), 1, lambda: model))
    (half,) = [one.finding for one in news[:-1] if one.finding is not None]
    assert isinstance(half, BleuFinding)
    assert len(half.texts) == 20
    assert math.isnan(half.score.low)
    assert half.parts == ()
    lengths = [len(text.source.split()) for text in half.texts]
    last = news[-1].finding
    assert isinstance(last, BleuFinding)
    assert max(lengths) <= max(len(text.source.split()) for text in last.texts)


def asked_of(question: BleuQuestion) -> BleuFinding:
    """What the toy translator finds in the end."""
    found = list(work_on(question, 1, lambda: load("grammar", "cpu")))[-1].finding
    assert isinstance(found, BleuFinding)
    return found


def test_that_the_pairs_of_the_program_are_read_without_a_file() -> None:
    found = asked_of(BleuQuestion(model="x", n_pairs=20))
    assert len(found.texts) == 20
    assert (found.texts[3].source, found.texts[3].references) == (
        "We are going to visit our cousins next week.",
        ("Nous allons rendre visite à nos cousins la semaine prochaine.",),
    )
    assert "English–French" in found.pairs
    first = next(iter(work_on(BleuQuestion(model="x", n_pairs=1000), 1, lambda: load("grammar", "cpu"))))
    assert first.n_total == 60


def test_that_only_held_out_sources_are_read_where_a_share_is_given(tmp_path: Path) -> None:
    path = tmp_path / "many.tsv"
    path.write_text("".join(f"word {k}\tmot {k}\n" for k in range(400)), encoding="utf-8")
    found = asked_of(BleuQuestion(model="x", file=str(path), held_out=0.05, n_pairs=2000))
    assert [text.source for text in found.texts] == [
        f"word {k}" for k in range(400) if is_kept_out(f"word {k}", 0.05)
    ]
    path.write_text("word 1\tmot 1\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"no pair that is held out.*held out to 0"):
        asked_of(BleuQuestion(model="x", file=str(path), held_out=0.01))


def test_that_a_model_that_does_not_translate_is_told_and_a_stop_ends_it(pairs: Path) -> None:
    engine = Engine(lambda error, what: None)
    ask(engine, LoadModel(number=1, source="induction", device="cpu"))
    ask(engine, RunExperiment(number=2, question=BleuQuestion(model="x", file=str(pairs))))
    *_, refused = train_to_end(engine)
    assert isinstance(refused, Failed)
    assert "does not translate" in refused.message
    ask(engine, LoadModel(number=3, source="grammar", device="cpu"))
    ask(engine, RunExperiment(number=4, question=BleuQuestion(model="x", file=str(pairs))))
    first = [*engine.advance_training(), *engine.advance_training(), *engine.advance_training()]
    assert all(isinstance(reply, ExperimentNews) and not reply.is_done for reply in first)
    ask(engine, StopWork(number=5, work="BleuQuestion"))
    list(train_to_end(engine))
    assert not engine.is_training
