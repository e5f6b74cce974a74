"""The path of texts through a model: read from files, sorted by length, run in batches.

A corpus is anything that can be gone through twice: a list of texts or pairs, or a file of them. Batches
hold texts of like length; padding is masked, so that it changes no number.

The most telling texts of a corpus: those in which a head did most of what it does.

| symbol | meaning                                          | shape                     |
|--------|--------------------------------------------------|---------------------------|
| best   | the largest values so far, the largest first     | [N_TELLING, n_columns]    |
| texts  | the numbers of the texts they come from, −1 none | [N_TELLING, n_columns]    |

Batches of texts read abreast: on a CPU each thread takes a batch of its own.

Threads inside the products of one pass meet after every product, and while they wait they sleep; those that
read a batch each meet once a batch. Measured with three layers of BERT-base on two processors and batches of
128 tokens, the passes of a corpus take 0.73 of the time that they take one after another with both threads in
each. How many there are changes no batch, and what they found is handed on in the order of the batches.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.analysis.words import AlignedPair, everyday_pairs
from attnscope.errors import UserError
from attnscope.models import Inputs, Model, OwnNetwork
from attnscope.models.huggingface.head import run_detached
from attnscope.models.huggingface.network import HuggingFaceNetwork, takes_argument
from attnscope.models.passes import evaluating, evaluating_tokens
from attnscope.nn import Probe, core_groups, keeping_to, stop_if_unwanted, threads_for
from attnscope.nn.long_work import asking_as_here
from attnscope.nn.own_module import OwnModule
from attnscope.records.measures import N_TELLING, TellingText
from attnscope.records.outputs import TELLING_TOKENS
from attnscope.records.sites import HeadRef, row_labels, written_after
from attnscope.schemes.measures import MEASURES
from attnscope.text.corpora import columns_of, read_lines, read_pairs
from attnscope.text.examples import Example, Task
from attnscope.text.samples import KNOWN_LANGUAGES
from attnscope.text.tasks import TASKS, make_task, task_options

BatchKind = Literal["any", "equal", "one"]
Text = str | tuple[str, str]
"""A text, or a source with its target."""

N_OWN_TEXTS = 200
_WINDOW = 1024
"""So many texts are looked at together when batches of like length are made."""
_BATCH_FLOPS = 2e9
"""About the work of one batch on a CPU: between two batches a pass can be watched and stopped."""
_ACCELERATOR = 64
_MAX_WASTE = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedInputs:
    """The tokens of one text and its place in the corpus."""

    number: int
    inputs: Inputs

    @property
    def n_tokens(self) -> int:
        """Source and target together."""
        return len(self.inputs.source) + len(self.inputs.target or ())


def read_corpus(path: Path, *, takes_target: bool, max_texts: int | None = None) -> list[Text]:
    """Read the texts of a file, one a line; for a translation model pairs (see `read_pairs`).

    A file without any gives a translation model its sources only. Raises LoadError.
    """
    lines = [(number, line) for number, line in enumerate(read_lines(path), start=1) if line.strip()]
    if takes_target and any(len(columns_of(line, number, path)) > 1 for number, line in lines[:1]):
        return list(read_pairs(path)[:max_texts])
    return [line for _, line in lines[:max_texts]]


def own_texts(model: Model, max_texts: int = N_OWN_TEXTS) -> tuple[list[Text], str]:
    """The program's own texts for a model, and what they are.

    Held out of its task; or pairs of its languages that were aligned by hand; or its samples.

    Raises UserError when there are none.
    """
    task = _own_task(model)
    if task is not None:
        examples = task.examples(min(max_texts, N_OWN_TEXTS), seed=0, held_out=True)
        texts: list[Text] = [e.source if e.target is None else (e.source, e.target) for e in examples]
        return texts, f"texts of the task {task.name} that were held out"
    aligned = hand_aligned(model)
    if aligned:
        return [pair.texts for pair in aligned[:max_texts]], "everyday pairs aligned by hand"
    return sample_texts(model, max_texts), "sample sentences"


def hand_aligned(model: Model) -> tuple[AlignedPair, ...]:
    """Pairs in the model's languages with word links drawn by hand; none for unknown languages."""
    is_known = model.info.takes_target and model.info.name in KNOWN_LANGUAGES
    return everyday_pairs() if is_known and _own_task(model) is None else ()


def own_examples(model: Model, max_texts: int = N_OWN_TEXTS) -> tuple[list[Example], str] | None:
    """Held-out examples of the model's task, with their given part and gold links; None without a task."""
    task = _own_task(model)
    if task is None:
        return None
    found = task.examples(min(max_texts, N_OWN_TEXTS), seed=0, held_out=True)
    return found, f"texts of the task {task.name} that were held out"


def sample_texts(model: Model, max_texts: int = N_OWN_TEXTS) -> list[Text]:
    """The model's sample sentences; if a pair lacks its target, the model generates it.

    Raises UserError when there are none.
    """
    samples: list[Text] = [
        sample.text if sample.target is None else (sample.text, sample.target)
        for sample in model.info.samples
    ]
    if model.info.takes_target and any(isinstance(text, str) for text in samples):
        samples = [_with_target(model, text) for text in samples]
    if not samples:
        raise UserError(
            f"There are no sample sentences for {model.info.name}.",
            expected="a file of texts",
            action="Choose a file.",
        )
    return samples[:max_texts]


def _with_target(model: Model, text: Text) -> Text:
    """A text with the target that the model generates, if a sample has none; alone if it is read alone."""
    written = model.encode(text).target if isinstance(text, str) else None
    if not isinstance(text, str) or written is None:
        return text
    return (text, written.text if written.text.strip() else text)


def _own_task(model: Model) -> Task | None:
    """The task that one of this program's models was trained on; None for other texts."""
    network = model.network
    name = network.card.training.get("task") if isinstance(network, OwnNetwork) else None
    if not isinstance(name, str) or name not in TASKS:
        return None
    if "form" not in task_options(name):
        return make_task(name)
    return make_task(name, form=model.info.form) if model.info.form != "encoder" else None


def encode_corpus(model: Model, texts: Iterable[Text | Inputs]) -> Iterator[NumberedInputs]:
    """Encode each text, unless it comes as tokens; a translation model without targets reads sources.

    Texts without a token are skipped: their numbers are missing.
    """
    for number, text in enumerate(texts):
        stop_if_unwanted()
        if isinstance(text, Inputs):
            inputs = text
        else:
            inputs = model.network.encode(*((text, None) if isinstance(text, str) else text))
        if len(inputs.source) and (inputs.target is None or len(inputs.target)):
            yield NumberedInputs(number=number, inputs=inputs)


def length_batches(model: Model, texts: Iterable[NumberedInputs]) -> Iterator[list[NumberedInputs]]:
    """Batches of texts of similar length, the longest of a stretch first; every text comes once."""
    budget, kind = batch_tokens(model), batch_kind(model)
    window: list[NumberedInputs] = []
    for text in texts:
        window.append(text)
        if len(window) == _WINDOW:
            yield from _sorted_batches(window, budget, kind)
            window = []
    yield from _sorted_batches(window, budget, kind)


def batch_tokens(model: Model) -> int:
    """Number of tokens in a batch: small on a CPU, so that it can be stopped, larger elsewhere."""
    n_tokens = _BATCH_FLOPS / (2 * max(1, model.info.n_parameters))
    if model.device.type != "cpu":
        n_tokens *= _ACCELERATOR
    return int(min(max(n_tokens, 128), 16_384))


def batch_kind(model: Model) -> BatchKind:
    """How texts may be batched: any, those of equal lengths, or one alone."""
    network = model.network
    if isinstance(network, OwnNetwork):
        return "any"
    is_plain = isinstance(network, HuggingFaceNetwork) and network.output_kind in TELLING_TOKENS
    return "equal" if is_plain else "one"


def run_batch(model: Model, batch: Sequence[NumberedInputs], probe: Probe) -> None:
    """Run one pass over a batch, for what the probe sees of it; the batch is one of `length_batches`.

    A translation model of this program runs its encoder only where there are no targets.
    """
    network = model.network
    if isinstance(network, OwnNetwork):
        _run_own(network.module, batch, probe)
    elif len(batch) == 1:
        network.run(batch[0].inputs, probe)
    elif isinstance(network, HuggingFaceNetwork):
        _run_library(network, batch, probe)
    else:
        raise ValueError(f"{len(batch)} texts for a network that reads one")


def _run_own(module: OwnModule, batch: Sequence[NumberedInputs], probe: Probe) -> None:
    with evaluating_tokens(module, sum(one.inputs.n_tokens for one in batch)):
        ids, valid = _padded([one.inputs.patches or one.inputs.source.ids for one in batch], module)
        # Random ids come without a second text: those of a model of pairs are matched with themselves.
        others = [
            one.inputs.target or (one.inputs.source if module.config.reads_pair else None) for one in batch
        ]
        seconds = [other.ids for other in others if other is not None]
        second, second_valid = _padded(seconds, module) if seconds else (None, None)
        segments = _segments(batch, module)
        module.told_from(
            ids, second=second, valid=valid, second_valid=second_valid, segments=segments, probe=probe
        )


def _segments(batch: Sequence[NumberedInputs], module: OwnModule) -> Tensor | None:
    """The text that each token belongs to, of two; None if every source is one text."""
    if not any(one.inputs.segments for one in batch):
        return None
    rows = [one.inputs.segments or (0,) * len(one.inputs.source.ids) for one in batch]
    return _padded(rows, module)[0]


def _run_library(network: HuggingFaceNetwork, batch: Sequence[NumberedInputs], probe: Probe) -> None:
    """Run texts of equal lengths without a mask, which every family handles best."""
    inputs = [one.inputs for one in batch]
    arguments: dict[str, Any] = {"input_ids": _stacked([one.source.ids for one in inputs], network)}
    if network.form == "encoder-decoder":
        whole = [one if one.target is not None else network.own_target(one, ()) for one in inputs]
        targets = [one.target.ids for one in whole if one.target is not None]
        arguments["decoder_input_ids"] = _stacked(targets, network)
    if network.abilities.has_segments and any(any(one.segments) for one in inputs):
        rows = [one.segments or (0,) * len(one.source) for one in inputs]
        arguments["token_type_ids"] = _stacked(rows, network)
    if takes_argument(network.module, "use_cache"):
        arguments["use_cache"] = False
    n_tokens = sum(one.n_tokens for one in inputs)
    with torch.no_grad(), network.attached.probing(probe), network.threads(n_tokens):
        if network.abilities.has_detachable_head:
            run_detached(network.module, arguments)
        else:
            network.module(**arguments)


def _stacked(rows: Sequence[Sequence[int]], network: HuggingFaceNetwork) -> Tensor:
    return torch.tensor([list(row) for row in rows], dtype=torch.int64, device=network.device)


def check_targets(model: Model, texts: Iterable[Text | Inputs]) -> bool:
    """Whether the texts have targets; raises UserError if only some have, or if the model reads none."""
    kinds = {not isinstance(text, tuple) for text in texts}
    if len(kinds) > 1:
        raise UserError(
            "Some texts of the corpus have a target and some have none.",
            expected="a target for every text, or for none",
            action="Complete or split the corpus.",
        )
    has_targets = kinds == {False}
    if has_targets and not model.info.takes_target:
        raise UserError(
            f"The model {model.info.name} reads one text only.",
            expected="single texts",
            action="Give the texts without a second column.",
        )
    return has_targets


def _sorted_batches(
    window: list[NumberedInputs], budget: int, kind: BatchKind
) -> Iterator[list[NumberedInputs]]:
    batch: list[NumberedInputs] = []
    for one in sorted(window, key=lambda one: (-one.n_tokens, *_lengths(one))):
        longest = batch[0].n_tokens if batch else one.n_tokens
        is_alike = kind == "any" and one.n_tokens >= (1 - _MAX_WASTE) * longest
        is_alike = is_alike or (kind == "equal" and bool(batch) and _lengths(one) == _lengths(batch[0]))
        if batch and (not is_alike or longest * (len(batch) + 1) > budget):
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch


def _lengths(one: NumberedInputs) -> tuple[int, int]:
    return len(one.inputs.source), len(one.inputs.target or ())


def _padded(rows: Sequence[Sequence[Any]], module: OwnModule) -> tuple[Tensor, Tensor | None]:
    """Ids padded on the right, and which of them belong to the text; None if all do."""
    longest = max(len(row) for row in rows)
    device = module.tokens.weight.device
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], dtype=torch.int64)
    if all(len(row) == longest for row in rows):
        return ids.to(device), None
    lengths = torch.tensor([len(row) for row in rows])
    return ids.to(device), (torch.arange(longest) < lengths[:, None]).to(device)


SHORT = 5
"""Texts of fewer tokens are telling only when there are no others."""
_N_EDGES, _LEAST = 24, 0.01


class TellingTexts:
    """Remembers, for each column, the texts with the largest values as they stream by."""

    def __init__(self, n_columns: int) -> None:
        self._best = np.full((N_TELLING, n_columns), -np.inf)
        self.texts = np.full((N_TELLING, n_columns), -1, np.int32)

    def add(self, numbers: Sequence[int], lengths: Sequence[int], values: NDArray[np.float32]) -> None:
        """Add values of some texts, [n_texts, n_columns]; NaN is ignored."""
        short = np.array([length < SHORT for length in lengths], np.float64)  # a float32 would lose values
        ranked = np.where(np.isnan(values), -np.inf, values - 1e6 * short[:, None])
        texts = np.repeat(np.array(numbers, np.int32)[:, None], values.shape[1], axis=1)
        ranked, texts = np.concatenate([self._best, ranked]), np.concatenate([self.texts, texts])
        order = np.lexsort((texts, -ranked), axis=0)[:N_TELLING]  # of equal ones the first of the corpus
        self._best = np.take_along_axis(ranked, order, axis=0)
        self.texts = np.where(np.isneginf(self._best), -1, np.take_along_axis(texts, order, axis=0))


def show_texts(
    model: Model, head: HeadRef, texts: Sequence[Text], numbers: Sequence[int], measure: str = ""
) -> tuple[TellingText, ...]:
    """Some texts of a corpus with the strongest edges of one head in them.

    Unless the `measure` is about them, edges to the first key and to special tokens are left out: many
    heads rest there when they have nothing to do. Queries that write are called after what they write.
    """
    rests = measure in MEASURES and MEASURES[measure].rests
    return tuple(_show(model, head, texts[number], number, rests=rests) for number in numbers)


def _show(model: Model, head: HeadRef, text: Text, number: int, *, rests: bool) -> TellingText:
    source, target = (text, None) if isinstance(text, str) else text
    trace = model.trace(source, target)
    queries, keys = trace.tokens(head.site_key)
    queries = row_labels(queries, written_after(head.stack, trace.target), "written")
    weights = trace.weights(head.site_key, head.head)
    filled = np.nan_to_num(weights, nan=-1.0)
    if not rests:
        filled[:, [j == 0 or token.is_mark for j, token in enumerate(keys)]] = -1.0
        filled[[token.is_mark for token in queries]] = -1.0
    order = np.argsort(-filled, axis=None, kind="stable")[:_N_EDGES]
    cells = [(int(cell) // len(keys), int(cell) % len(keys)) for cell in order]
    edges = tuple((i, j, float(filled[i, j])) for i, j in cells if filled[i, j] >= _LEAST)
    return TellingText(
        number=number,
        source=source,
        target=target,
        queries=tuple(token.piece for token in queries),
        keys=tuple(token.piece for token in keys),
        edges=edges,
    )


_MOST = 8
"""More threads would wait for Python's lock; more than two were not measured."""

_Batch = Sequence[NumberedInputs]
_Found = TypeVar("_Found")


def read_abreast(
    model: Model, batches: Iterable[_Batch], read: Callable[[int, _Batch], _Found]
) -> Iterator[tuple[_Batch, _Found]]:
    """Apply `read` to each batch, a few at a time, and yield the results in order.

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
    """Number of batches read at the same time."""
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
