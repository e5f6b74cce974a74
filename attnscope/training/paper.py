"""The cost of a recipe on paper: sizes, operations, memory and disk, without allocating the model.

Operations are those of `models/cost.py`, three times the forward pass for a step (Kaplan et al. 2020,
section 2.1), four times where blocks are computed again in the backward pass; memory is that of
`models/cost.py`. The weights of a checkpoint are 4 bytes a parameter, the state that a resume needs
8 more; the last states are kept while another one is written. How many tokens the texts of a file have is
estimated from four stretches of it, before any tokenizer has been made.

The presets as rows of a table: their sizes, what they cost on paper, and their keys in a recipe.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from attnscope.errors import LoadError
from attnscope.models import (
    GRADIENT_BYTES,
    MOMENT_BYTES,
    WEIGHT_BYTES,
    BatchShape,
    activation_bytes,
    loss_bytes,
    own_cost,
    passing_bytes,
    rows_at_once,
)
from attnscope.nn import PRESETS, PUBLISHED, ModelConfig, available_bytes, count_parameters
from attnscope.outside import open_outside
from attnscope.records.plans import LEARNED_FROM, Pace, Plan, PresetRow
from attnscope.schemes.norms import NORMS
from attnscope.schemes.objectives import OBJECTIVES, usual_objective
from attnscope.schemes.optimizers import OPTIMIZERS
from attnscope.schemes.tokenizers import KINDS
from attnscope.text import require_corpus
from attnscope.text.tasks import make_task
from attnscope.training.descent import can_divide, has_bfloat16_products, has_quick_bfloat16, ways_up_to
from attnscope.training.distributed import ALONE
from attnscope.training.optimizers import (
    drawn_rates,
    drawn_texts,
    drawn_tokens,
    growing_steps,
    texts_at,
    tokens_at,
)
from attnscope.training.parts import WATCHED_STEPS, Value
from attnscope.training.recipe import Recipe, toml_text
from attnscope.training.saving import N_KEPT
from attnscope.training.text_batches import N_AROUND

_N_STRETCHES, _STRETCH_BYTES = 4, 65_536
_OF_LINES = frozenset({"pairs", "labelled", "spans"})
"""The kinds of data that have a text on each line, or two with a tab between them."""
_N_COLUMNS = 10

Lengths = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Sampled:
    """Token counts of both texts of some lines of a file, 0 without a second [n, 2]; and their bytes."""

    sides: Lengths
    n_bytes: int

    @property
    def lengths(self) -> Lengths:
        """Length of the longer of two texts."""
        longer: Lengths = self.sides.max(axis=1)
        return longer


_NOTHING = _Sampled(np.empty((0, 2), dtype=np.int64), 0)


def file_lengths(recipe: Recipe) -> Lengths | None:
    """Token counts of some texts of the recipe's file, shuffled; None without such a file."""
    if recipe.data.kind not in _OF_LINES | {"tagged"}:
        return None
    found = _sampled(recipe).lengths
    return found if len(found) else None


def held_out_batches(recipe: Recipe) -> float:
    """Batches of one evaluation: the number requested, or fewer if less is held out."""
    training, data = recipe.training, recipe.data
    found = _sampled(recipe) if data.kind in _OF_LINES | {"tagged", "text"} else _NOTHING
    if not found.n_bytes:
        return training.evaluation_batches
    share = data.validation_share * file_bytes(recipe) / found.n_bytes
    n_texts = share * len(found.lengths)
    if data.kind == "text":
        n_texts = share * float(found.lengths.sum()) / recipe.model.max_tokens
    return min(training.evaluation_batches, max(1.0, n_texts) / training.batch_size)


def _sampled(recipe: Recipe) -> _Sampled:
    path = Path(recipe.data.path)
    if not recipe.data.path:
        return _NOTHING
    try:
        stat = path.stat()
    except (OSError, ValueError):
        return _NOTHING
    tokenizer = recipe.tokenizer
    signature = (stat.st_mtime_ns, stat.st_size)
    return _lengths(str(path), signature, tokenizer.kind, tokenizer.vocab_size, recipe.data.kind)


@lru_cache(maxsize=32)
def _lengths(path: str, signature: tuple[int, int], kind: str, vocab_size: int, data_kind: str) -> _Sampled:
    found: list[tuple[int, int]] = []
    is_tagged, first = data_kind == "tagged", 1 if data_kind == "labelled" else 0
    n_bytes = 0
    try:
        with open_outside(Path(path), expected="a text file") as stream:
            for k in range(_N_STRETCHES):
                start = k * signature[1] // _N_STRETCHES
                stream.seek(start)
                lines = stream.read(_STRETCH_BYTES).split(b"\n")
                # The first and the last line may be parts of lines, and of sentences.
                texts = lines[bool(start) : -1]
                n_bytes += sum(1 + len(line) for line in texts)
                texts = _sentences(texts)[bool(start) :] if is_tagged else texts
                found += [_tokens(text, kind, vocab_size, first) for text in texts if text.strip()]
    except (LoadError, OSError):
        return _NOTHING
    sides = np.array(found, dtype=np.int64).reshape(-1, 2)
    # As batches draw them, however the file is sorted.
    return _Sampled(sides[np.random.default_rng(0).permutation(len(sides))], n_bytes)


def _sentences(lines: Sequence[bytes]) -> list[bytes]:
    """The texts of lines of a tagged file, with spaces between words; the last only if complete."""
    found: list[bytes] = []
    words: list[bytes] = []
    for line in lines:
        cells = line.strip().split(b"\t")
        if len(cells) > 1:
            words.append(cells[1] if len(cells) >= _N_COLUMNS else cells[0])
        elif line.strip() and not line.startswith(b"# "):
            found.append(b" ".join(item.rpartition(b"/")[0] for item in line.split()))
        elif words and not line.strip():
            found.append(b" ".join(words))
            words = []
    return found


def _tokens(line: bytes, kind: str, vocab_size: int, first: int) -> tuple[int, int]:
    """Token counts of a line's texts from column `first` on, with end tokens; 0 without a second."""
    columns = line.decode("utf-8", errors="replace").replace("|||", "\t").split("\t")
    texts = columns[first : first + 2] or columns[:1]
    one, *other = (1 + KINDS[kind].n_tokens(text.strip(), vocab_size) for text in texts)
    return one, other[0] if other else 0


_SITE_BYTES, _TOKEN_BYTES = 1000, 100
"""Maximum header size of a trace file, for a site and for a token."""
PROGRAM_BYTES = (680 if torch.version.cuda or torch.version.hip else 380) * 2**20
"""What a process that trains holds beside the parts of its model: Python, torch and what they set aside."""
KERNEL_BYTES, _N_SHAPES_MADE = 230 * 2**20, 250
"""What products in bfloat16 keep on a CPU where batches differ in length: code made for each shape, of a
thousand shapes at most, so that it grows for so many steps. 200 to 210 MB measured."""
_READ_BYTES = 20
"""Of each byte of a file: 1 MB of Shakespeare and 3 MB of pairs with vocabularies of thousands, measured."""
_N_SAMPLED = 256
_N_GROWTHS = 64
"""At so many steps is counted what a step costs whose batch or texts are still growing."""
_SAMPLE_SEED = 7


def free_bytes(device: torch.device) -> int:
    """Memory available on the device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return available_bytes()


def uses_bfloat16(recipe: Recipe, device: torch.device) -> bool:
    """Whether products will be made in bfloat16."""
    precision = recipe.training.precision
    return precision == "bfloat16" or (precision == "auto" and has_quick_bfloat16(device))


def is_recomputed(recipe: Recipe) -> bool:
    """Whether blocks are recomputed in the backward pass: reversible ones unless they are observed."""
    is_watched = bool(recipe.gates.l0_penalty or recipe.objective.guided_head)
    return recipe.training.checkpointing or (recipe.model.is_reversible and not is_watched)


def longest_tokens(recipe: Recipe) -> int:
    """Tokens of the longest text of a batch: the model's limit, or less according to a task."""
    most = recipe.model.max_tokens
    if recipe.model.patch_size:
        return min(most, recipe.model.n_patch_tokens or most)
    return most if recipe.data.kind != "task" else min(most, int(_task_lengths(recipe).max()))


def mean_tokens(recipe: Recipe, n_most: int | None = None) -> float:
    """Average tokens of a text in a batch, including padding: of a task's, or estimated for a file's.

    With `n_most` of those that are no longer, while texts grow.
    """
    most = recipe.model.max_tokens
    is_task = recipe.data.kind == "task"
    lengths = _task_lengths(recipe).max(axis=1) if is_task else file_lengths(recipe)
    if lengths is None or recipe.model.patch_size:
        return float(min(longest_tokens(recipe), n_most or most))
    lengths = np.minimum(lengths, most)
    if n_most is not None and lengths.min() <= n_most:
        lengths = lengths[lengths <= n_most]
    return float(_in_batches(lengths[:, None], recipe)[0])


def _in_batches(lengths: Lengths, recipe: Recipe) -> NDArray[np.float64]:
    """Average padded lengths in a batch of texts of these lengths [n, n_sides]: [n_sides]."""
    n = min(recipe.training.batch_size, len(lengths))
    if recipe.data.similar_lengths:
        lengths = lengths[np.argsort(lengths.sum(axis=1), kind="stable")]
    batches = lengths[: len(lengths) // n * n].reshape(-1, n, lengths.shape[1])
    mean: NDArray[np.float64] = batches.max(axis=1).mean(axis=0)
    return mean


def _task_lengths(recipe: Recipe) -> Lengths:
    """Token counts of each text of some examples of the recipe's task, [n, n_texts_read]."""
    model = recipe.model
    words = _words_of(recipe.data.task, recipe.task_options)
    n_around = 2 if model.form == "encoder" else 1
    if n_texts_read(model) == 2:
        return words + n_around
    both = words.sum(axis=1) + N_AROUND
    one = words.max(axis=1) + n_around
    lengths: Lengths = np.where(model.joins_texts & (words[:, 1] > 0), both, one)[:, None]
    return lengths


@lru_cache(maxsize=32)
def _words_of(task: str, options: tuple[tuple[str, Value], ...]) -> Lengths:
    """Words of both texts of some examples, 0 without a second, [n, 2]."""
    examples = make_task(task, **dict(options)).examples(_N_SAMPLED, seed=_SAMPLE_SEED)
    words = [(len(one.source.split()), len((one.target or "").split())) for one in examples]
    return np.array(words, dtype=np.int64)


def shape_of(recipe: Recipe, device: torch.device, *, n_tokens: int) -> BatchShape:
    n_sequences = recipe.training.batch_size
    share = OBJECTIVES[recipe.objective.kind].scored_share(recipe.objective, n_tokens)
    return BatchShape(
        n_sequences=n_sequences,
        n_tokens=n_tokens,
        n_scored=max(1, round(n_sequences * n_tokens * share)),
        has_bfloat16=uses_bfloat16(recipe, device),
        is_on_cpu=device.type == "cpu",
        is_recomputed=is_recomputed(recipe),
    )


def has_ever_other_lengths(recipe: Recipe) -> bool:
    """Whether batches differ in length, so that a run returns large memory blocks at once."""
    return recipe.data.kind != "text"


def kernel_bytes(recipe: Recipe, device: torch.device) -> int:
    """Bytes of code kept for matrix products of ever new shapes."""
    is_made = (
        device.type == "cpu"
        and uses_bfloat16(recipe, device)
        and has_ever_other_lengths(recipe)
        and has_bfloat16_products()
    )
    return KERNEL_BYTES * min(recipe.training.n_steps, _N_SHAPES_MADE) // _N_SHAPES_MADE if is_made else 0


def memory_parts(recipe: Recipe, device: torch.device) -> tuple[tuple[str, int], ...]:
    """Peak memory of training, in bytes by part; on a GPU, what is there."""
    config, shape = recipe.model, shape_of(recipe, device, n_tokens=longest_tokens(recipe))
    n_all, n_learned = count_parameters(config).total, learned_parameters(recipe)
    n_added, n_threads = adapter_parameters(recipe), 1
    if can_divide(recipe, device, ALONE):
        shape = rows_at_once(config, shape)
        n_threads = max(way.n for way in ways_up_to(torch.get_num_threads(), recipe.training.batch_size))
    activations = activation_bytes(config, shape)
    keeps_blocks = device.type == "cpu" and not has_ever_other_lengths(recipe)
    parts = (
        ("the program and its libraries", PROGRAM_BYTES if device.type == "cpu" else 0),
        ("code for each shape in bfloat16", kernel_bytes(recipe, device)),
        (LEARNED_FROM, _READ_BYTES * file_bytes(recipe) if device.type == "cpu" else 0),
        ("weights", WEIGHT_BYTES * (n_all + n_added)),
        ("gradients", GRADIENT_BYTES * n_learned),
        ("gradients of other threads", 2 * GRADIENT_BYTES * n_learned * (n_threads - 1)),
        ("moments of the optimiser", moment_bytes(recipe) * n_learned),
        ("activations", activations),
        ("gaps between them", activations if keeps_blocks else 0),
        ("gradients of activations", passing_bytes(config, shape)),
        ("loss over the vocabulary", n_threads * loss_bytes(config, shape)),
    )
    return tuple((name, n) for name, n in parts if n)


def file_bytes(recipe: Recipe) -> int:
    """The size of the training file; 0 if there is none."""
    try:
        return Path(recipe.data.path).stat().st_size if recipe.data.path else 0
    except (OSError, ValueError):
        return 0


def moment_bytes(recipe: Recipe) -> int:
    """Bytes that the optimiser stores for one parameter."""
    return MOMENT_BYTES * OPTIMIZERS[recipe.optimizer.kind].n_kept(recipe.optimizer)


def learned_parameters(recipe: Recipe) -> int:
    """Number of trained parameters: all, or with low-rank changes these and the ones that read the stream."""
    count = count_parameters(recipe.model)
    if recipe.start.prompt_tokens:
        return count.part("memory tokens")
    if not recipe.start.lora_rank:
        return count.total
    new = {"segment embedding", "pooling", "matching", "pooler", "next sentence"}
    new |= {"head"} if recipe.model.n_labels else set()
    return adapter_parameters(recipe) + sum(n for name, n in count.parts if name in new)


def adapter_parameters(recipe: Recipe) -> int:
    """Parameters of the low-rank changes of the attention's matrices, in addition to the model's."""
    config, rank = recipe.model, recipe.start.lora_rank
    total = 0
    for key in config.headed_keys():
        layout = config.layout(*key)
        n, k = layout.n_heads * config.head_width, layout.n_kv_heads * config.head_width
        read = (
            (config.d_model + n) + (config.d_model + 2 * k)
            if key[0] == "cross"
            else config.d_model + n + 2 * k
        )
        total += rank * (read + n + config.d_model)
    return total


def step_flops(recipe: Recipe, n_tokens: float) -> float:
    """Operations of one optimiser step over texts of `n_tokens` tokens."""
    whole = max(1, round(n_tokens))
    cost = own_cost(recipe.model, whole)
    forward = float(cost.forward)
    if not recipe.model.n_labels:
        share = OBJECTIVES[recipe.objective.kind].scored_share(recipe.objective, whole)
        forward -= dict(cost.parts).get("logits", 0) * (1.0 - share)
    passes = 4.0 if is_recomputed(recipe) else 3.0
    n_sequences = recipe.training.batch_size * recipe.training.accumulate
    return passes * forward * n_sequences * n_tokens / whole


def mean_share(recipe: Recipe) -> float:
    """Average cost of a run's steps, relative to one with all texts of a batch at full length."""
    n_growing, n_steps = growing_steps(recipe), recipe.training.n_steps
    if not n_growing:
        return 1.0
    edges = np.linspace(0, n_growing, min(n_growing, _N_GROWTHS) + 1).astype(np.int64)
    growing = 0.0
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        step = (first + last + 1) // 2
        small = replace(recipe, training=replace(recipe.training, batch_size=texts_at(step, recipe)))
        growing += (last - first) * step_flops(small, mean_tokens(small, tokens_at(step, recipe)))
    return (growing / step_flops(recipe, mean_tokens(recipe)) + n_steps - n_growing) / n_steps


def n_texts_read(config: ModelConfig) -> int:
    """Texts of an example that are read separately: source and target, or both of a pair."""
    return 2 if config.form == "encoder-decoder" or config.reads_pair else 1


def tokens_a_step(recipe: Recipe) -> float:
    """Tokens read in one optimiser step, of both texts together, including padding."""
    model, n_memory = recipe.model, recipe.model.memory_tokens
    sides = _NOTHING.sides
    if recipe.data.kind == "task" and not model.patch_size:
        sides = _task_lengths(recipe)
    elif file_lengths(recipe) is not None and n_texts_read(model) == 2:
        sides = _sampled(recipe).sides
    if len(sides):
        lengths = np.minimum(sides, model.max_tokens - n_memory) + n_memory
        n_tokens = float(_in_batches(lengths, recipe).sum())
    else:
        n_tokens = n_texts_read(model) * mean_tokens(recipe)
    return n_tokens * recipe.training.batch_size * recipe.training.accumulate


def plan_recipe(
    recipe: Recipe,
    device: torch.device,
    *,
    out: Path | None = None,
    pace: Pace | None = None,
    available: int | None = None,
) -> Plan:
    """The whole plan on paper; `available` replaces the device's free memory.

    A recipe with a start is one that `starting.recipe_on_paper` gave.
    """
    config, training = recipe.model, recipe.training
    count, longest, mean = count_parameters(config), longest_tokens(recipe), mean_tokens(recipe)
    n_saves = n_checkpoints(recipe)
    checkpoint_bytes = WEIGHT_BYTES * count.total
    return Plan(
        name=training.name,
        n_parameters=count.total,
        parameters=count.parts,
        n_sequences=training.batch_size,
        n_tokens=longest,
        mean_tokens=mean,
        tokens_a_step=tokens_a_step(recipe),
        n_steps=training.n_steps,
        flops_a_step=step_flops(recipe, mean),
        memory=memory_parts(recipe, device),
        available_bytes=free_bytes(device) if available is None else available,
        device=str(device),
        precision="bfloat16" if uses_bfloat16(recipe, device) else "float32",
        pace=pace,
        n_checkpoints=n_saves,
        checkpoint_bytes=checkpoint_bytes,
        disk_bytes=n_saves * checkpoint_bytes
        + min(N_KEPT + 1, n_saves) * moment_bytes(recipe) * learned_parameters(recipe)
        + (n_saves + n_early_looks(recipe)) * look_bytes(recipe),
        free_disk_bytes=_free_disk(out),
        notes=_notes(recipe),
        n_learned=learned_parameters(recipe)
        if recipe.start.lora_rank or recipe.start.prompt_tokens
        else None,
        rates=drawn_rates(recipe),
        texts=drawn_texts(recipe),
        lengths=drawn_tokens(recipe),
        mean_share=mean_share(recipe),
    )


def look_bytes(recipe: Recipe) -> int:
    """Upper bound of the disk space of one look at the watched sentences: queries, keys and row sums."""
    model = recipe.model
    n_sites = model.n_layers * (3 if model.form == "encoder-decoder" else 1)
    total = 0
    for sentence in recipe.watch:
        longest = max(len(sentence.text), len(sentence.target)) if sentence.target else len(sentence.text)
        n_tokens = min(model.max_tokens, longest + 2)
        total += n_sites * (WEIGHT_BYTES * n_tokens * (2 * model.d_model + model.n_heads) + _SITE_BYTES)
        total += 2 * n_tokens * _TOKEN_BYTES
    return total


def n_checkpoints(recipe: Recipe) -> int:
    """Number of checkpoints: before the first step, at intervals, and after the last."""
    n_steps, every = recipe.training.n_steps, recipe.training.save_every
    return 1 + n_steps // every + (1 if n_steps % every else 0)


def n_early_looks(recipe: Recipe) -> int:
    """Number of steps without a checkpoint at which the watched sentences are recorded."""
    n_steps, every = recipe.training.n_steps, recipe.training.save_every
    return sum(step < n_steps and step % every != 0 for step in WATCHED_STEPS)


def require_data(recipe: Recipe) -> None:
    """Raise LoadError unless the recipe's file or folder can be read; it is not read."""
    data = recipe.data
    if data.kind != "task" and data.path and not (data.kind == "pictures" and os.path.isdir(data.path)):
        require_corpus(Path(data.path))


def _notes(recipe: Recipe) -> tuple[str, ...]:
    notes = list(filter(None, [NORMS[recipe.model.norm].warning]))
    if recipe.data.kind != "task" and not recipe.data.path:
        notes.append("To run it needs data: data.path is empty.")
    try:
        require_data(recipe)
    except LoadError as error:
        notes.append(f"To run it needs data: {error.happened}")
    if recipe.start.source:
        notes.append(
            f"The tokenizer, with {recipe.model.vocab_size:,} pieces, is that of {recipe.start.source}."
        )
    elif recipe.data.kind != "task":
        notes.append(f"The vocabulary is counted with the {recipe.model.vocab_size:,} pieces asked for.")
    if recipe.data.kind == "pairs":
        what = "For memory every text" if file_lengths(recipe) is not None else "Every text"
        notes.append(
            f"{what} is counted with max_tokens, {recipe.model.max_tokens:,}; real ones are shorter."
        )
    return tuple(notes)


def _free_disk(out: Path | None) -> int | None:
    """Free disk space for the run; None if unknown."""
    if out is None:
        return None
    for folder in (out, *out.absolute().parents):
        try:
            return shutil.disk_usage(folder).free
        except (OSError, ValueError):
            continue
    return None


_DERIVED = ("form", "vocab_size", "kept_heads")


def preset_rows(*, is_on_cpu: bool = True) -> tuple[PresetRow, ...]:
    """Every preset, in the order of the literature; a batch is one text of its maximum length."""
    return tuple(_row(name, config, is_on_cpu) for name, config in PRESETS.items())


def objective_of(config: ModelConfig) -> str:
    """The objective a model was made for; T5's positions belong to its span corruption."""
    if config.form == "encoder-decoder" and config.position == "t5":
        return "span-corruption"
    return usual_objective(config.form)


def preset_keys(config: ModelConfig) -> tuple[tuple[str, str], ...]:
    """Keys of a recipe's [model], with TOML values: the sizes, and everything not at its default."""
    keys = []
    always = ("d_model", "n_layers", "n_heads", "d_ff", "max_tokens")
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name not in _DERIVED and (field.name in always or value != field.default):
            keys.append((field.name, toml_text(value)))
    return tuple(keys)


def _row(name: str, config: ModelConfig, is_on_cpu: bool) -> PresetRow:
    n, n_tokens = count_parameters(config).total, config.max_tokens
    shape = BatchShape(n_sequences=1, n_tokens=n_tokens, n_scored=n_tokens, is_on_cpu=is_on_cpu)
    return PresetRow(
        name=name,
        objective=objective_of(config),
        n_layers=config.n_layers,
        d_model=config.d_model,
        d_ff=config.d_ff,
        n_heads=config.n_heads,
        n_tokens=n_tokens,
        vocab_size=config.vocab_size,
        n_parameters=n,
        flops_a_token=own_cost(config, n_tokens).forward_a_token,
        training_bytes=(WEIGHT_BYTES + GRADIENT_BYTES + 2 * MOMENT_BYTES) * n,
        batch_bytes=activation_bytes(config, shape) + loss_bytes(config, shape),
        keys=preset_keys(config),
        published=PUBLISHED[name],
    )
