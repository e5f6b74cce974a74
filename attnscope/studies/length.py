"""How good what is written is, by the length of what is read (Bahdanau et al. 2014, figure 2).

| symbol | meaning                                                                      |
|--------|------------------------------------------------------------------------------|
| exact  | share of rows written right to the end, greedily                             |
| tokens | share of tokens, ends counted in, that are right at their places             |

Four bodies of about the same size learn to write rows of letters backwards, each from several seeds. They
are read on rows that nobody trained on, of every trained length and of longer ones.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from attnscope.models import Model, load
from attnscope.models.own import OwnNetwork
from attnscope.models.writing.greedy import RightTexts, count_right, write_rows
from attnscope.records.experiments import Writer
from attnscope.records.importance import Progress
from attnscope.studies.catalogue import find_card
from attnscope.studies.length_report import TRAINED, Reading, compare, length_charts, rows_of
from attnscope.studies.runs import QUICK, run_folder, train_study
from attnscope.studies.study import Choices, Study
from attnscope.text.examples import Example
from attnscope.text.tasks import make_task
from attnscope.viewmodels.labs.length_quality import WRITER_NAMES

N_SEEDS, N_TEXTS = 3, 100
_LENGTHS = tuple(range(TRAINED[0], 31))
_QUICK_LENGTHS = (3, 20, 30)
_N_LETTERS = 16
_HELD_OUT_SEED = 2
_WITH = {"model.has_attention": "true"}
_CHANGES: Mapping[Writer, Mapping[str, str]] = {
    "none": {},
    "additive": {**_WITH, "model.score": "additive"},
    "dot": {**_WITH, "model.score": "dot", "model.feeds_context": "false"},
    "transformer": {
        **_WITH,
        "model.body": "transformer",
        "model.position": "sinusoidal",
        "model.n_heads": "4",
        "model.d_ff": "96",
    },
}
"""What of the recipe is another for each body."""
_DIFFERENCES = (
    "They translate English to French and count BLEU; ours writes letters backwards, where what is right is"
    " known, in minutes on one processor. Directions can be compared and no numbers.",
    "Their models have 1,000 units and 620 for words, trained on sentences of up to 30 or 50 words for five"
    " days; ours have 48, and 3 to 20 letters.",
    "With a larger vector, or trained longer, the model without attention comes further; what it is worth"
    " falls with the length all the same.",
    "Nothing here is theirs for Luong's score and the Transformer, which came later: they stand beside.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Rows of one length."""

    n_words: int
    examples: tuple[Example, ...]


def reproduce(choices: Choices) -> Iterator[Progress | Study]:
    """Train every body from every seed; read each on the same held-out rows."""
    lengths, n_texts = (_QUICK_LENGTHS, 4) if choices.is_quick else (_LENGTHS, N_TEXTS)
    held_out = [held_out_rows(n_words, n_texts) for n_words in lengths]
    readings: list[Reading] = []
    sizes: dict[Writer, int] = {}
    seeds = range(choices.seed, choices.seed + (1 if choices.is_quick else N_SEEDS))
    runs = list(itertools.product(seeds, WRITER_NAMES))
    for n_done, (seed, body) in enumerate(runs, start=1):
        out = run_folder(replace(choices, seed=seed), body)
        changes = {**(QUICK if choices.is_quick else {}), **_CHANGES[body]}
        yield from train_study("length", out, seed=seed, device=choices.device, changes=changes)
        model = load(str(out), device=choices.device)
        sizes[body] = model.info.n_parameters
        for rows in held_out:
            right = read_rows(model, rows.examples)
            readings.append(Reading(body=body, seed=seed, n_words=rows.n_words, right=right))
        yield Progress(n_done=n_done, n_total=len(runs), about=f"read with {out.name}")
    yield _study(choices, readings, sizes, n_texts)


def held_out_rows(n_words: int, n_texts: int) -> HeldOut:
    """Rows of one length that no training sees."""
    task = make_task("reverse", min_words=n_words, max_words=n_words, n_letters=_N_LETTERS)
    rows = task.examples(n_texts, seed=_HELD_OUT_SEED, held_out=True)
    return HeldOut(n_words=n_words, examples=tuple(rows))


def read_rows(model: Model, examples: Sequence[Example]) -> RightTexts:
    """What the model writes for rows of one length, against what is right."""
    network = model.network
    if not isinstance(network, OwnNetwork):
        raise TypeError("rows are read by a model of our own")
    module, end_id = network.module, network.vocabulary.end_id
    inputs = [model.encode(example.source, example.target) for example in examples]
    sources = torch.tensor([one.source.ids for one in inputs], device=module.device)
    right = torch.tensor([[*one.target.ids[1:], end_id] for one in inputs if one.target is not None])
    written = write_rows(module, sources, network.vocabulary.begin_id, right.shape[1])
    return count_right(written.cpu(), right)


def _study(choices: Choices, readings: Sequence[Reading], sizes: Mapping[Writer, int], n_texts: int) -> Study:
    card = find_card("length")
    seeds = sorted({one.seed for one in readings})
    said = ", ".join(f"{WRITER_NAMES[body]} {sizes[body]:,}" for body in WRITER_NAMES)
    return Study(
        name=card.name,
        paper=card.paper,
        question=card.question,
        setting=(
            ("models", f"resources/recipes/studies/length.toml, parameters: {said}"),
            ("task", f"rows of {TRAINED[0]} to {TRAINED[1]} of {_N_LETTERS} letters, written backwards"),
            ("read", f"{n_texts} held-out rows of each length, greedily"),
            ("seeds", ", ".join(str(seed) for seed in seeds)),
        ),
        comparisons=compare(readings),
        differences=_DIFFERENCES,
        charts=length_charts(readings),
        columns=("body", "seed", "letters", "rows", "exact", "low", "high", "tokens"),
        data=rows_of(readings),
    )
