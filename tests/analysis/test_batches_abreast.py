"""Batches that several threads read abreast give what they give one after another."""

import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from known_heads import KNOWN_WORDS
from test_corpus_words import chain, table_of
from tiny_models import FORMS, FRENCH, tiny_model

from attnscope.analysis import (
    AlignedPair,
    NumberedInputs,
    encode_corpus,
    length_batches,
    measure_alignment,
    measure_corpus,
    measure_syntax,
    n_abreast,
    read_abreast,
)
from attnscope.errors import Stopped
from attnscope.models import Model
from attnscope.nn import stop_if_unwanted, stoppable
from attnscope.records import AlignmentTable, HeadTable, SyntaxTable

WORDS = "the cat sat a dog saw bird on mat".split()
TEXTS = [" ".join(WORDS[(3 * i + j * (i % 5 + 1)) % 9] for j in range(2 + i % 8)) for i in range(40)]


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("attnscope.analysis.corpus_texts.batch_tokens", lambda _: 48)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def alone(measured: type, steps: object) -> object:
    torch.set_num_threads(1)
    found = table_of(steps, measured)
    torch.set_num_threads(2)
    return found


def are_equal(one: object, other: object) -> None:
    for name in one.__dataclass_fields__:
        ours, theirs = getattr(one, name), getattr(other, name)
        if isinstance(ours, np.ndarray) and ours.dtype.kind == "f":
            np.testing.assert_allclose(ours, theirs, atol=1e-6, rtol=0, err_msg=name)
        elif isinstance(ours, np.ndarray):
            np.testing.assert_array_equal(ours, theirs, err_msg=name)
        elif name != "diagonal":
            assert ours == theirs, name


@pytest.mark.parametrize("form", FORMS)
def test_that_measures_of_a_corpus_do_not_depend_on_how_many_read_it(form: str) -> None:
    model = tiny_model(form)
    texts = [(text, FRENCH) for text in TEXTS] if form == "encoder-decoder" else TEXTS
    together = table_of(measure_corpus(model, texts), HeadTable)
    are_equal(together, alone(HeadTable, measure_corpus(model, texts)))


def test_that_relations_and_alignments_do_not_depend_on_it_either() -> None:
    trees = [chain(KNOWN_WORDS[:n], "nsubj") for n in (2, 3, 5, 8)] * 8
    model = tiny_model("encoder")
    together = table_of(measure_syntax(model, trees, min_arcs=1), SyntaxTable)
    are_equal(together, alone(SyntaxTable, measure_syntax(model, trees, min_arcs=1)))
    pair = AlignedPair(source="the cat sat", target="le chat est", sure=frozenset({(0, 0), (1, 1)}))
    translator = tiny_model("encoder-decoder")
    together = table_of(measure_alignment(translator, [pair] * 20), AlignmentTable)
    are_equal(together, alone(AlignmentTable, measure_alignment(translator, [pair] * 20)))


def batches(model: Model) -> list[list[NumberedInputs]]:
    return list(length_batches(model, encode_corpus(model, TEXTS)))


def test_that_two_threads_read_and_their_batches_come_back_in_order() -> None:
    model, threads = tiny_model("encoder"), {}

    def read(thread: int, batch: Sequence[NumberedInputs]) -> int:
        assert torch.get_num_threads() == 1
        threads.setdefault(thread, set()).add(threading.get_ident())
        return batch[0].number

    found = list(read_abreast(model, batches(model), read))
    assert [batch for batch, _ in found] == batches(model)
    assert [number for _, number in found] == [batch[0].number for batch in batches(model)]
    assert len(threads) == n_abreast(model) == 2
    assert all(len(idents) == 1 for idents in threads.values())
    assert threads[0] == {threading.get_ident()} != threads[1]


def test_that_a_fault_of_another_thread_rises_when_all_have_ended_and_training_goes_on() -> None:
    model, ended = tiny_model("encoder"), []
    module = model.own.module.train()

    def read(thread: int, batch: Sequence[NumberedInputs]) -> None:
        assert not module.training
        if thread == 1:
            raise ValueError("no such batch")
        ended.append(batch)

    with pytest.raises(ValueError, match="no such batch"):
        list(read_abreast(model, batches(model), read))
    assert len(ended) == 1
    assert module.training


def test_that_work_nobody_wants_is_given_up_in_every_thread() -> None:
    model, asked = tiny_model("encoder"), []

    def read(thread: int, batch: Sequence[NumberedInputs]) -> None:
        if thread == 1:
            asked.append(batch)
            stop_if_unwanted()

    with stoppable(lambda: bool(asked)), pytest.raises(Stopped):
        list(read_abreast(model, batches(model), read))
    assert len(asked) == 1
