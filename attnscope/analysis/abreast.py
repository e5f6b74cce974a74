"""Batches of texts read abreast: on a CPU each thread takes a batch of its own.

Threads inside the products of one pass meet after every product, and while they wait they sleep; those that
read a batch each meet once a batch. Measured with three layers of BERT-base on two processors and batches of
128 tokens, the passes of a corpus take 0.73 of the time that they take one after another with both threads in
each. How many there are changes no batch, and what they found is handed on in the order of the batches.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from typing import TypeVar

import torch

from attnscope.analysis.corpus_texts import NumberedInputs
from attnscope.models.model import Model
from attnscope.models.own import OwnNetwork
from attnscope.models.passes import evaluating
from attnscope.nn.computing import core_groups, keeping_to, threads_for
from attnscope.nn.long_work import asking_as_here

_MOST = 8
"""More threads would wait for Python's lock; more than two were not measured."""

_Batch = Sequence[NumberedInputs]
_Found = TypeVar("_Found")


def read_abreast(
    model: Model, batches: Iterable[_Batch], read: Callable[[int, _Batch], _Found]
) -> Iterator[tuple[_Batch, _Found]]:
    """What `read` finds in each batch, in their order, a few batches at a time.

    `read` gets the number of the thread, from 0 on, and one batch; it runs the model and keeps what belongs
    to that thread alone. The caller's thread is the first of them. A network of a library, which is heard by
    hooks, is read by the caller's thread only.
    """
    network, n = model.network, n_abreast(model)
    if n == 1 or not isinstance(network, OwnNetwork):
        for batch in batches:
            yield batch, read(0, batch)
        return
    rest, asking = iter(batches), asking_as_here()
    threads = [partial(_on_cores, cores, asking, partial(read, i)) for i, cores in enumerate(core_groups(n))]
    with ThreadPoolExecutor(n - 1, "abreast", torch.set_flush_denormal, (True,)) as pool:
        while row := list(islice(rest, n)):
            with evaluating(network.module), threads_for(0):  # new threads begin with one, too
                others = [pool.submit(threads[i], row[i]) for i in range(1, len(row))]
                try:
                    found = [threads[0](row[0])]
                finally:
                    wait(others)  # nothing may go on in the model once the caller has it back
            yield from zip(row, [*found, *(other.result() for other in others)], strict=True)


def n_abreast(model: Model) -> int:
    """How many batches are read at the same time."""
    is_own = isinstance(model.network, OwnNetwork) and model.device.type == "cpu"
    return min(torch.get_num_threads(), _MOST) if is_own else 1


def _on_cores(
    cores: set[int],
    asking: Callable[[], AbstractContextManager[None]],
    read: Callable[[_Batch], _Found],
    batch: _Batch,
) -> _Found:
    with asking(), keeping_to(cores):
        return read(batch)
