"""A model of the library made from a checked configuration and tensors that were read safely.

The model is first built without memory, so that its size and its tensors' names are known before anything
is allocated; then the library itself fits the tensors in, since it knows older names of them. Whatever is
missing or has another size is refused with a table: nothing is ever filled with random numbers.
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnscope.errors import LoadError
from attnscope.models.huggingface.config_checks import CheckedConfig
from attnscope.models.huggingface.library import joined_threads, library_faults
from attnscope.models.huggingface.tasks import Task
from attnscope.models.pruning.huggingface import fitted_class
from attnscope.models.weights import MAX_ROWS, cast_note, check_types, finite_note, other_weights

_SLACK = 10_000_000
_UNUSED = ("pooler.",)
"""Parts of a model whose output nothing here looks at: they may be missing."""
_ACTION = "Open a model that the installed transformers library can build."


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A model on paper: the library's class and configuration, and the shape of each parameter."""

    model_class: Any
    config: Any
    shapes: Mapping[str, tuple[int, ...]]
    n_parameters: int
    n_embedded: int | None


def plan_model(library: Any, checked: CheckedConfig, task: Task, where: Path) -> Plan:
    """Build the model of a configuration without memory; raises LoadError when that is impossible."""
    name = checked.model_type
    with library_faults(f"The configuration of {where} cannot be used", kind="config", action=_ACTION):
        auto = importlib.import_module("transformers.models.auto.configuration_auto")
        config = auto.CONFIG_MAPPING[name].from_dict(dict(checked.values))
        if task.part:
            config = getattr(config, task.part)
        model_class = fitted_class(getattr(library, task.class_name), checked.values, str(where))
        safe = getattr(
            importlib.import_module("transformers.initialization"), "meta_device_safe_creation_ops", None
        )
        with torch.device("meta"), nullcontext() if safe is None else safe(), _refusing_overflow(where):
            empty = model_class(config)
        shapes = {name: tuple(p.shape) for name, p in empty.named_parameters(remove_duplicate=False)}
        n_parameters = sum(p.numel() for p in empty.parameters())
        n_embedded = _n_embedded(empty)
    return Plan(
        model_class=model_class,
        config=config,
        shapes=shapes,
        n_parameters=n_parameters,
        n_embedded=n_embedded,
    )


@contextmanager
def _refusing_overflow(where: Path) -> Iterator[None]:
    """Even on paper a tensor has fewer than 2^63 bytes."""
    try:
        yield
    except RuntimeError as error:
        if "overflow" not in str(error):
            raise
        raise LoadError(
            f"The model of {where} names more parameters than can be counted.",
            kind="too-large",
            expected="a model that fits this machine",
            action="Restore config.json from its origin.",
        ) from error


def refuse_too_large(plan: Plan, where: Path, n_free: int) -> None:
    """Raise LoadError when the model's weights in float32 do not fit `n_free` bytes of memory."""
    n_bytes = 4 * plan.n_parameters
    if n_bytes > n_free:
        raise LoadError(
            f"The model of {where} has {plan.n_parameters:,} parameters and needs {n_bytes / 1e9:,.1f} GB.",
            kind="too-large",
            expected=f"at most the {n_free / 1e9:.1f} GB of memory that are free",
            action="Close other programs, or open a smaller model.",
        )


def fill_model(plan: Plan, tensors: Mapping[str, Tensor], where: Path) -> tuple[Any, str]:
    """The model in float32 on the CPU in evaluation mode, and a note on what is odd about its weights.

    Raises LoadError with a table when the tensors are not those of the configuration.
    """
    _check_embedding(plan, tensors, where)
    _check_types(plan.shapes, tensors, where)
    _check_amount(plan, tensors, where)
    happened = f"The weights in {where} cannot be used"
    with library_faults(happened, kind="keys", action=_ACTION), joined_threads():
        model, report = plan.model_class.from_pretrained(
            None,
            config=plan.config,
            state_dict=dict(tensors),
            dtype=torch.float32,
            ignore_mismatched_sizes=True,
            local_files_only=True,
            output_loading_info=True,
        )
    _check_report(report, where, len(plan.shapes))
    model.eval().requires_grad_(False)
    weights_note = finite_note(dict(model.named_parameters()))
    return model, " ".join(filter(None, (cast_note(tensors), _unused_note(report), weights_note)))


def _n_embedded(empty: Any) -> int | None:
    try:
        rows = getattr(empty.get_input_embeddings(), "weight", None)
    except (AttributeError, NotImplementedError):
        return None
    return int(rows.shape[0]) if rows is not None and rows.ndim == 2 else None


def _check_embedding(plan: Plan, tensors: Mapping[str, Tensor], where: Path) -> None:
    """A vocabulary of another size is the commonest misfit, and worth a sentence of its own."""
    for name, shape in plan.shapes.items():
        found = next((t for key in _spellings(name) if (t := tensors.get(key)) is not None), None)
        if len(shape) != 2 or found is None or found.ndim != 2 or shape[0] != plan.n_embedded:
            continue
        if found.shape[0] != shape[0] and found.shape[1] == shape[1]:
            raise LoadError(
                f"The embedding in {where} has {found.shape[0]} rows but config.json says {shape[0]}.",
                kind="vocabulary",
                expected="the same number in both",
                action="Restore the model folder from its origin.",
            )


def _check_amount(plan: Plan, tensors: Mapping[str, Tensor], where: Path) -> None:
    """What a file lacks is made by the library before it is reported: that much must not be lacking."""
    n_found = sum(tensor.numel() for tensor in tensors.values())
    if plan.n_parameters <= 2 * n_found + _SLACK:
        return
    rows = [
        f"wrong size  {name} {list(found.shape)}, expected {list(shape)}"
        for name, shape in plan.shapes.items()
        if (found := tensors.get(name)) is not None and tuple(found.shape) != shape
    ]
    table = "".join(f"\n  {row[:160]}" for row in rows[:MAX_ROWS])
    raise LoadError(
        f"The weights in {where} hold {n_found:,} numbers but config.json describes a model of "
        f"{plan.n_parameters:,}.{table}\n",
        kind="keys",
        expected="the weights of the model that config.json describes",
        action="Open the folder in which the model was saved; nothing was loaded.",
    )


def _check_types(expected: Iterable[str], tensors: Mapping[str, Tensor], where: Path) -> None:
    own = {key: tensors[key] for name in expected for key in _spellings(name) if key in tensors}
    check_types(own, where, action="Open the model it was made from; converting would change it.")


def _spellings(name: str) -> tuple[str, ...]:
    """A parameter's name with and without the name of the model inside the model with a head."""
    return (name, name.split(".", 1)[-1])


def _check_report(report: Mapping[str, Any], where: Path, n_expected: int) -> None:
    missing = sorted(name for name in report["missing_keys"] if not any(part in name for part in _UNUSED))
    rows = [f"missing     {name}" for name in missing]
    rows += [
        f"wrong size  {name} {list(found)}, expected {list(wanted)}"
        for name, found, wanted in sorted(report["mismatched_keys"], key=lambda row: str(row[0]))
    ]
    if not rows:
        return
    n_more = len(rows) - MAX_ROWS
    rows = rows[:MAX_ROWS] + [f"unexpected  {name}" for name in sorted(report["unexpected_keys"])[:4]]
    if n_more > 0:
        rows.append(f"and {n_more} more")
    raise other_weights(
        [row[:160] for row in rows], where, expected=f"{n_expected} tensors of the right sizes"
    )


def _unused_note(report: Mapping[str, Any]) -> str:
    names = sorted(report["unexpected_keys"])
    if not names:
        return ""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"Tensors of the file that this model does not use: {', '.join(names[:3])[:200]}{more}."
