"""The check that attaching to a model changed nothing: a tiny text through its own attention and through
ours.

The text is as short as can be, its second copy padded at the end, source and target of different
lengths so that cross attention shows by its shape. What padding says is not compared.
"""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.errors import UserError
from attnscope.nn.machine import exact

N_SOURCE, N_TARGET, N_PADDED = 9, 5, 2
N_SAMPLES = 4000

TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
"""Largest difference allowed, relative to the largest number of an output; other sums in another order."""

RUN_ERRORS = (
    *(RuntimeError, ValueError, TypeError, KeyError, IndexError, AttributeError),
    *(NotImplementedError, AssertionError),
)
"""Exceptions of the library's models for an unsupported input or way of running."""

Example = Mapping[str, Any]
Outputs = dict[str, Tensor]


def example_of(model: Any) -> dict[str, Any]:
    """A tiny input for a model of text, pictures, sound or text and pictures; raises UserError for others."""
    accepted = inspect.signature(model.forward).parameters
    device = next(model.parameters()).device
    example: dict[str, Any] = {}
    main = model.main_input_name if model.main_input_name in accepted else ""
    has_both = hasattr(model, "get_text_features") and hasattr(model, "get_image_features")
    if main == "input_ids":
        example.update(_text(model, N_SOURCE, "input_ids", "attention_mask", accepted))
    if main == "pixel_values" or (has_both and "pixel_values" in accepted):
        example["pixel_values"] = _pixels(model.config)
    if main == "input_features":
        example["input_features"] = _sound(model.config)
    if main == "input_values":
        example["input_values"] = _waves((1, N_SAMPLES))
    if not example:
        raise UserError(
            f"{type(model).__name__} reads {model.main_input_name}.",
            expected="a model of text, of pictures or of speech",
            action="This model cannot be opened.",
        )
    if "decoder_input_ids" in accepted:
        target = _text(model, N_TARGET, "decoder_input_ids", "decoder_attention_mask", {})
        batch = len(next(iter(example.values())))
        example["decoder_input_ids"] = target["decoder_input_ids"][:batch]
    if "use_cache" in accepted:
        example["use_cache"] = False
    dtype = next(model.parameters()).dtype
    return {name: _placed(value, device, dtype) for name, value in example.items()}


def run_example(model: Any, example: Example, **more: Any) -> Any:
    """The model's whole output on an example, in evaluation mode; raises UserError if it cannot run."""
    with in_evaluation_mode(model), torch.no_grad():
        try:
            return model(**example, **more)
        except RUN_ERRORS as error:
            raise UserError(
                f"{type(model).__name__} could not read a tiny input: {type(error).__name__}: "
                f"{str(error)[:200]}",
                expected="a model that reads text, pictures or speech by itself",
                action="This model cannot be opened.",
            ) from error


def numbers_of(output: Any, example: Example) -> Outputs:
    """Every numeric tensor directly in an output, by name, without positions of padding."""
    named = output.items() if isinstance(output, Mapping) else enumerate(output)
    found = {}
    valid = example.get("attention_mask")
    for name, value in named:
        if not isinstance(value, Tensor) or not value.is_floating_point():
            continue
        if isinstance(valid, Tensor) and value.shape[:2] == valid.shape:
            value = value[valid.bool()]
        found[str(name)] = value.detach()
    return found


def check_equal(model: Any, own: Outputs, ours: Outputs, *, attention: str = "AttnScope's") -> float:
    """The largest relative difference of two outputs; raises UserError with the number if it is too large.

    `attention` says in the message which attention gave `ours`.
    """
    if own.keys() != ours.keys() or not own:
        raise UserError(
            f"{type(model).__name__} returned {sorted(ours)} with {attention} attention and {sorted(own)} "
            "with its own.",
            expected="the same outputs",
            action="This model cannot be opened.",
        )
    worst = 0.0
    for name, expected in own.items():
        error = _relative_difference(ours[name], expected)
        allowed = TOLERANCES.get(expected.dtype, 1e-4)
        if not error <= allowed:
            raise UserError(
                f"With {attention} attention the {name} of {type(model).__name__} differ by {error:.2g} of "
                "their largest value from what the model computes with its own.",
                expected=f"at most {allowed:g}",
                action="Its maps would not be the model's own, so it was not opened.",
            )
        worst = max(worst, error)
    return worst


@contextmanager
def in_evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Put the model in evaluation mode in the block; every module's own mode is restored afterwards."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _relative_difference(found: Tensor, expected: Tensor) -> float:
    if found.shape != expected.shape:
        return float("inf")
    if not expected.numel():
        return 0.0
    finite = expected.isfinite()
    if not torch.equal(finite, found.isfinite()):
        return float("inf")
    wide = exact(torch.where(finite, expected, 0))
    difference = (exact(torch.where(finite, found, 0)) - wide).abs().max()
    return float(difference / wide.abs().max().clamp(min=1e-6))


def _text(
    model: Any, n_tokens: int, ids_name: str, mask_name: str, accepted: Mapping[str, Any]
) -> dict[str, Tensor]:
    n_pieces = _n_pieces(model)
    special = _special_ids(model.config)
    plain = [id for id in range(min(n_pieces, 1000)) if id not in special] or list(range(n_pieces))
    chosen = [plain[(place * 7 + 3) % len(plain)] for place in range(n_tokens)]
    end = _number(model.config, "eos_token_id")
    if end is not None and end < n_pieces:
        chosen[-1] = end
    ids = torch.tensor([chosen, chosen[:-N_PADDED] + chosen[-1:] + chosen[-1:] * (N_PADDED - 1)])
    if mask_name not in accepted:
        return {ids_name: ids[:1].repeat(2, 1)}
    mask = torch.ones_like(ids)
    mask[1, -N_PADDED:] = 0
    pad = _number(model.config, "pad_token_id")
    padded = torch.tensor(chosen[: -N_PADDED - 1] + chosen[-1:] + [0 if pad is None else pad] * N_PADDED)
    ids[1] = padded.clamp(min=0, max=n_pieces - 1)
    return {ids_name: ids, mask_name: mask}


def _n_pieces(model: Any) -> int:
    named = _number(model.config.get_text_config(), "vocab_size")
    return named or int(model.get_input_embeddings().weight.shape[0])


def _special_ids(config: Any) -> set[int]:
    values = {**vars(config), **vars(config.get_text_config())}
    return {
        value
        for name, value in values.items()
        if isinstance(value, int) and name.endswith(("_token_id", "_token_index"))
    }


def _number(config: Any, name: str) -> int | None:
    places = (config, config.get_text_config())
    for place in places:
        value = getattr(place, name, None)
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, int):
            return first
    return None


def _pixels(config: Any) -> Tensor:
    vision = getattr(config, "vision_config", None) or getattr(config, "encoder", None) or config
    size = getattr(vision, "image_size", None) or 224
    height, width = (size, size) if isinstance(size, int) else tuple(size)[-2:]
    shape = (2, getattr(vision, "num_channels", 3) or 3, height, width)
    return _waves(shape)


def _sound(config: Any) -> Tensor:
    n_frames = 2 * int(getattr(config, "max_source_positions", 50))
    return _waves((1, int(getattr(config, "num_mel_bins", 80)), n_frames))


def _waves(shape: tuple[int, ...]) -> Tensor:
    steps = torch.arange(int(torch.tensor(shape).prod()), dtype=torch.float64)
    return torch.sin(steps * steps * 0.731).reshape(shape).float()


def _placed(value: Any, device: torch.device, dtype: torch.dtype) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.to(device, dtype) if value.is_floating_point() else value.to(device)
