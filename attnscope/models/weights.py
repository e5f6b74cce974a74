"""Putting the tensors of a file into a model: every one must fit, and nothing is cast in silence."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from attnscope.errors import LoadError
from attnscope.nn.building import empty_own, unfilled_own
from attnscope.nn.config import ModelConfig
from attnscope.nn.own_module import OwnModule

WEIGHTS = "model.safetensors"
MAX_ROWS = 12
_EMBEDDING = "tokens.weight"


def fill_own(
    config: ModelConfig, tensors: Mapping[str, Tensor], where: Path, *, stored_as: str = ""
) -> tuple[OwnModule, str]:
    """A model with these weights in float32 on the CPU, and a note on what is odd about them.

    `stored_as` is how the folder itself says that they are stored, which is nothing odd. Raises LoadError
    with a table when the tensors are not those of `config`.
    """
    expected = {name: tuple(tensor.shape) for name, tensor in unfilled_own(config).state_dict().items()}
    _check_vocabulary(config, tensors, where)
    _check_shapes(expected, tensors, where)
    refuse_whole_numbers(tensors, where, action="Save the model in float32; converting would change it.")
    module = empty_own(config)
    with torch.no_grad():
        parameters = dict(module.named_parameters())
        for name, own in module.state_dict().items():
            if name in parameters and _can_be_kept(tensors[name]):
                parameters[name].data = tensors[name]
            else:
                own.copy_(tensors[name])
    module.eval()
    notes = (cast_note(tensors, stored_as), finite_note(module.state_dict()))
    return module, " ".join(filter(None, notes))


def _can_be_kept(tensor: Tensor) -> bool:
    """Whether a tensor can be a weight as it is: it has memory of its own, and nothing is to be cast."""
    is_alone = tensor.untyped_storage().nbytes() == tensor.nbytes
    return tensor.dtype == torch.float32 and tensor.is_contiguous() and is_alone


def _check_vocabulary(config: ModelConfig, tensors: Mapping[str, Tensor], where: Path) -> None:
    embedding = tensors.get(_EMBEDDING)
    if embedding is None or embedding.ndim != 2 or embedding.shape[0] == config.vocab_size:
        return
    raise LoadError(
        f"The embedding in {where} has {embedding.shape[0]} rows "
        f"but config.json names {config.vocab_size} pieces.",
        kind="vocabulary",
        expected="the same number in both",
        action="Restore the model folder from a copy.",
    )


def _check_shapes(expected: dict[str, tuple[int, ...]], tensors: Mapping[str, Tensor], where: Path) -> None:
    rows = [f"missing     {name} {list(shape)}" for name, shape in expected.items() if name not in tensors]
    rows += [f"unexpected  {name} {list(t.shape)}" for name, t in tensors.items() if name not in expected]
    rows += [
        f"wrong size  {name} {list(tensors[name].shape)}, expected {list(shape)}"
        for name, shape in expected.items()
        if name in tensors and tuple(tensors[name].shape) != shape
    ]
    if not rows:
        return
    shown = rows[:MAX_ROWS]
    if len(rows) > MAX_ROWS:
        shown.append(f"and {len(rows) - MAX_ROWS} more")
    raise other_weights(shown, where, expected=f"exactly {len(expected)} tensors of the right sizes")


def other_weights(rows: Sequence[str], where: Path, *, expected: str) -> LoadError:
    """What is said of weights that are not those of the model, with a table of what is wrong."""
    table = "\n  ".join(rows)
    return LoadError(
        f"The weights in {where} are not those of the model that config.json describes:\n  {table}\n",
        kind="keys",
        expected=expected,
        action="Open the folder in which the model was saved; nothing was loaded.",
    )


def refuse_whole_numbers(tensors: Mapping[str, Tensor], where: Path, *, action: str) -> None:
    """Raise LoadError for whole or complex numbers: where a weight stands they would be converted."""
    wrong = [f"{name} is {_type(t)}" for name, t in tensors.items() if not t.is_floating_point()]
    if wrong:
        raise LoadError(
            f"The weights in {where} are not floating-point numbers: {', '.join(wrong[:MAX_ROWS])}.",
            kind="dtype",
            expected="float32, float16 or bfloat16",
            action=action,
        )


def cast_note(tensors: Mapping[str, Tensor], stored_as: str = "") -> str:
    """What a person should know of weights in other types than the one that is computed with."""
    types = {_type(t) for t in tensors.values() if t.is_floating_point()} - {"float32", stored_as}
    return f"Weights in {' and '.join(sorted(types))} are converted to float32." if types else ""


def finite_note(weights: Mapping[str, Tensor]) -> str:
    """What a person should know of weights that are NaN or infinite; empty where none is."""
    # A sum is not finite when any of its parts is not, and is ten times quicker to look at.
    suspects = [name for name, tensor in weights.items() if not torch.isfinite(tensor.sum())]
    bad = [name for name in suspects if not torch.isfinite(weights[name]).all()]
    if not bad:
        return ""
    more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
    return (
        f"Some weights are not finite numbers: {', '.join(bad[:3])}{more}. "
        "Maps affected by them are grey, and the model's output cannot be trusted."
    )


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
