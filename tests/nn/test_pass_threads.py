"""How many threads passes compute with."""

import threading

import pytest
import torch

import attnscope as at
from attnscope.analysis import measured_grids
from attnscope.nn import Probe, layer_products, map_products, threads_for

MOST = 8


@pytest.fixture(autouse=True)
def eight_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(MOST)
    yield
    assert torch.get_num_threads() == MOST  # whatever ran gave back what it found
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("n_products", "n_threads"),
    [(0, 1), (1, 1), (119e6, 1), (120e6, 4), (149e6, 4), (150e6, 5), (240e6, 8), (1e15, 8)],
)
def test_that_there_is_one_thread_for_little_work_and_one_for_each_thirty_million_multiplications_of_much(
    n_products, n_threads
):
    with threads_for(n_products):
        assert torch.get_num_threads() == n_threads


def test_that_the_number_is_given_back_after_an_error():
    with pytest.raises(KeyError), threads_for(0):
        raise KeyError


def test_that_a_thread_that_computes_already_keeps_its_number():
    seen, is_known, is_inside = [], threading.Event(), threading.Event()

    def look():
        seen.append(torch.get_num_threads())
        is_known.set()
        assert is_inside.wait(60)
        seen.append(torch.get_num_threads())

    other = threading.Thread(target=look)
    other.start()
    assert is_known.wait(60)
    with threads_for(0):
        is_inside.set()
        other.join()
        assert torch.get_num_threads() == 1
    assert seen == [MOST, MOST]


@pytest.mark.parametrize(
    ("d_model", "n_tokens", "n_threads"),
    [(64, 65, 1), (128, 65, 1), (256, 30, 1), (256, 512, 8), (768, 1, 5), (768, 65, 8), (64, 4096, 8)],
)
def test_that_small_layers_have_one_thread_and_large_ones_more(d_model, n_tokens, n_threads):
    with threads_for(layer_products(12 * d_model**2, n_tokens)):
        assert torch.get_num_threads() == n_threads


class _Counting(Probe):
    """Notes the threads of every call of attention."""

    def __init__(self):
        self.seen = []

    def edits(self, site):
        self.seen.append(torch.get_num_threads())
        return super().edits(site)


def test_that_a_small_model_reads_and_writes_with_one_thread():
    model = at.load("english-french")
    probe = _Counting()
    inputs = model.encode("Anna forgot her hat.")
    model.network.run(inputs, probe)
    model.network.write(inputs, probe, n_tokens=4)
    writer = model.network.writer(probe)
    writer.begin(inputs.source.ids, [model.network.vocabulary.begin_id])
    assert set(probe.seen) == {1}


def test_that_a_long_text_is_read_with_all_threads():
    model = at.load("stories")
    probe = _Counting()
    model.network.run(model.encode("the cat sat on the mat and " * 60), probe)
    assert set(probe.seen) == {MOST}


def test_that_measures_are_the_same_with_one_thread_and_with_eight():
    model = at.load("english-french")
    trace = model.trace("Anna forgot her hat in the kitchen.")
    grids, measures = measured_grids(trace, 96)
    torch.set_num_threads(1)
    again, measures_again = measured_grids(model.trace("Anna forgot her hat in the kitchen."), 96)
    torch.set_num_threads(MOST)
    assert [m.entropy for m in measures] == pytest.approx([m.entropy for m in measures_again], abs=1e-6)
    assert len(grids) == len(again)


def test_that_maps_of_half_a_million_cells_pay_for_more_threads():
    with threads_for(map_products(460_000)):
        assert torch.get_num_threads() == 1
    with threads_for(map_products(500_000)):
        assert torch.get_num_threads() == 4


def test_that_a_model_of_the_library_counts_its_matrices_without_embeddings(tmp_path):
    pytest.importorskip("transformers")
    from bench.loading import make_folder

    folder = make_folder(tmp_path / "model", n_pieces=300, d_model=64, n_layers=2)
    model = at.load(str(folder))
    probe = _Counting()
    model.network.run(model.encode("a b c"), probe)
    assert set(probe.seen) == {1}
    with model.network.threads(16_384):
        assert torch.get_num_threads() == MOST
    assert model.network._layer_weights == pytest.approx(12 * 64**2, rel=0.35)  # the head's matrix besides
