"""A second device for tests on a machine that has only a processor: `torch.device("second_device")`.

Its tensors hold a CPU tensor inside and compute with the CPU's kernels, so that results can be compared bit
for bit; but torch takes them for tensors of another device. What a graphics device refuses is refused, and
where the program would wait for it is noted (`Watch`):

    reads     `item`, `tolist`, `bool`, `.cpu()`, and shapes that depend on values (`nonzero`, a mask)
    copies    to the device without `non_blocking`, as `torch.tensor(..., device=...)` makes them
    refused   two devices in one operation (a CPU tensor without dimensions may mix, as on CUDA), float64 and
              complex128 (MPS has neither), and a random generator of another device

It is torch's Python backend for PrivateUse1 (torch.utils.backend_registration, torch 2.13). Tensors that are
subclasses of their own cannot be on it, so models of Hugging Face are not tried with it.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from second_kernels import own_kernels
from torch import Tensor
from torch.utils._mode_utils import no_dispatch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "second_device"
_ATEN = torch.ops.aten
_READERS = {
    _ATEN._local_scalar_dense.default,
    _ATEN.is_nonzero.default,
    _ATEN.equal.default,
    _ATEN.nonzero.default,
    _ATEN.masked_select.default,
    _ATEN._unique2.default,
    _ATEN.unique_dim.default,
    _ATEN.unique_consecutive.default,
    _ATEN.bincount.default,
}
_INDEXERS = {_ATEN.index.Tensor, _ATEN.index_put.default, _ATEN.index_put_.default}
_COPIES = {_ATEN.copy_.default, _ATEN._copy_from.default, _ATEN._copy_from_and_resize.default}
_WIDE = {torch.float64, torch.complex128}
_FACTORIES = (
    "empty.memory_format empty_strided full zeros ones eye eye.m arange arange.start arange.start_step "
    "linspace scalar_tensor rand randn randint randint.low randperm tril_indices triu_indices"
)
_NARROW = "linear matmul mm bmm addmm baddbmm addbmm"
"""What autocast makes of narrow numbers."""


@dataclass
class Watch:
    """Where the program waited for the device, each as `module.function: what`."""

    reads: list[str] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)

    def forget(self) -> None:
        self.reads.clear()
        self.copies.clear()

    def told(self) -> str:
        """Every place and how often, for a test that fails."""
        return "\n".join(f"{n} {where}" for where, n in Counter([*self.reads, *self.copies]).most_common())


_WATCHES: list[Watch] = []


@contextmanager
def second_device() -> Iterator[Watch]:
    """The device, for as long as the test looks."""
    _register()
    watch, swaps = Watch(), torch.__future__.get_swap_module_params_on_conversion()
    # Otherwise parameters that two modules share would be two on the device.
    torch.__future__.set_swap_module_params_on_conversion(True)
    _WATCHES.append(watch)
    try:
        # The threads of autograd were counted before this device was there.
        with torch.autograd.set_multithreading_enabled(False):
            yield watch
    finally:
        _WATCHES.remove(watch)
        torch.__future__.set_swap_module_params_on_conversion(swaps)


class SecondTensor(torch.Tensor):
    """A tensor of the second device around one of the CPU."""

    raw: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, raw: Tensor) -> "SecondTensor":
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            raw.size(),
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device=torch.device(NAME, 0),
        )
        made.raw = raw
        return made

    def __repr__(self) -> str:
        return f"second({self.raw!r})"

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("can't convert a tensor of the second device to numpy; copy it to the CPU first")

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


# -- running one operator ------------------------------------------------------------------------


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    if func in _OWN:
        return _OWN[func](*args, **kwargs)
    if _is_made_of_others(func):
        return func.decompose(*args, **kwargs)
    if func is _ATEN._to_copy.default:
        return _to_copy(args[0], **kwargs)
    if func in _COPIES:
        return _copy(*args, **kwargs)
    tensors = _tensors((args, tuple(kwargs.values())))
    _check(func, args, kwargs, tensors)
    return _compute(func, args, kwargs, tensors)


def _compute(func: Any, args: Any, kwargs: dict[str, Any], tensors: Sequence[Tensor]) -> Any:
    plain = {name: _each(_raw, value) for name, value in kwargs.items()}
    is_here = _is_second(kwargs.get("device", NAME) or NAME)
    if kwargs.get("device") is not None:
        plain["device"] = "cpu"
    # A view of what was made outside of inference mode is no inference tensor either.
    is_usual = _is_view(func) and not any(t.is_inference() for t in tensors)
    with torch.inference_mode(False) if is_usual else nullcontext():
        found = func(*_each(_raw, args), **plain)
        if torch.Tag.inplace_view in func.tags:
            with no_dispatch():  # the shape and strides of the tensor around
                func(*args, **kwargs)
            return args[0]
        _check_width(func, _tensors(found))
        known = {id(t.raw): t for t in tensors if isinstance(t, SecondTensor)}
        return _each(lambda t: _around(t, known), found) if is_here else found


@cache
def _is_made_of_others(func: Any) -> bool:
    """Such operators arrive here in inference mode only."""
    return bool(func._can_decompose())


@cache
def _is_view(func: Any) -> bool:
    return any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)


def _each(change: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)([_each(change, one) for one in value])
    return change(value)


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, tuple | list):
        return [t for one in value for t in _tensors(one)]
    return [value] if isinstance(value, Tensor) else []


def _raw(value: Any) -> Any:
    return value.raw if isinstance(value, SecondTensor) else value


def _around(value: Any, known: dict[int, SecondTensor]) -> Any:
    if not isinstance(value, Tensor) or isinstance(value, SecondTensor):
        return value
    return known[id(value)] if id(value) in known else SecondTensor(value)


def _is_second(device: Any) -> bool:
    return torch.device(device).type == NAME


def _check(func: Any, args: Any, kwargs: dict[str, Any], tensors: Sequence[Tensor]) -> None:
    others = [t for t in tensors if not isinstance(t, SecondTensor)]
    if func in _INDEXERS:
        indices = [t for t in args[1] if t is not None]
        others = [t for t in others if not any(t is index for index in indices)]
        _check_indices(func, args, indices)
    if len(others) < len(tensors) and any(t.dim() for t in others):
        found = ", ".join(f"{t.device} {list(t.shape)}" for t in tensors)
        raise RuntimeError(f"{func}: expected all tensors to be on the same device, found {found}")
    if func in _READERS or (func is _ATEN.repeat_interleave.Tensor and kwargs.get("output_size") is None):
        _note_read(func.overloadpacket.__name__)
    generator = kwargs.get("generator")
    if generator is not None and generator.device.type != NAME:
        raise RuntimeError(f"{func}: expected a generator of {NAME}, found one of {generator.device}")


def _check_indices(func: Any, args: Any, indices: Sequence[Tensor]) -> None:
    is_fill = func is not _ATEN.index.Tensor and args[2].dim() == 0
    for index in indices:
        if index.dtype in (torch.bool, torch.uint8) and not is_fill:
            _note_read("boolean index")
        elif not isinstance(index, SecondTensor):
            _note_copy("index from the CPU")


def _check_width(func: Any, values: Sequence[Any]) -> None:
    for value in values:
        if isinstance(value, Tensor) and value.dtype in _WIDE:
            raise TypeError(f"{func}: this device has no {value.dtype}")


# -- copies, and what is noted of them -----------------------------------------------------------


def _to_copy(value: Tensor, *, device: Any = None, non_blocking: bool = False, **options: Any) -> Any:
    target = value.device if device is None else torch.device(device)
    options.pop("pin_memory", None)
    found = _ATEN._to_copy.default(_raw(value), **options)
    _note(is_from=isinstance(value, SecondTensor), is_to=_is_second(target), non_blocking=non_blocking)
    if not _is_second(target):
        return found
    _check_width(_ATEN._to_copy, [found])
    return SecondTensor(found)


def _copy(first: Tensor, second: Tensor, non_blocking: bool = False) -> Tensor:
    is_from, is_to = isinstance(second, SecondTensor), isinstance(first, SecondTensor)
    _note(is_from=is_from, is_to=is_to, non_blocking=non_blocking)
    _raw(first).copy_(_raw(second))
    return first


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    return _copy(target, source, non_blocking)


def _note(*, is_from: bool, is_to: bool, non_blocking: bool) -> None:
    if is_from and not is_to:
        _note_read("copy to the CPU")
    elif is_to and not is_from and not non_blocking:
        _note_copy("copy to the device")


def _note_read(what: str) -> None:
    for watch in _WATCHES:
        watch.reads.append(f"{_place()}: {what}")


def _note_copy(what: str) -> None:
    for watch in _WATCHES:
        watch.copies.append(f"{_place()}: {what}")


def _place() -> str:
    frame: Any = sys._getframe()
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("attnscope"):
            return f"{name.removeprefix('attnscope.')}.{frame.f_code.co_name}"
        frame = frame.f_back
    return "test"


# -- telling torch of it -------------------------------------------------------------------------


_OWN = own_kernels()


def _factory(operator: Any) -> Callable[..., Tensor]:
    def make(*args: Any, **kwargs: Any) -> Tensor:
        found = operator(*args, **{**kwargs, "device": "cpu", "pin_memory": None})
        _check_width(operator, [found])
        return SecondTensor(found)

    return make


def _narrow(operator: Any) -> Callable[..., Any]:
    """A product under autocast."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def narrowed(value: Any) -> Any:
        is_wide = isinstance(value, Tensor) and value.is_floating_point() and value.device.type == NAME
        return value.to(torch.get_autocast_dtype(NAME)) if is_wide else value

    def compute(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return operator(*_each(narrowed, args), **kwargs)

    return compute


class _Module:
    """What torch asks of a device, as torch.cuda answers for CUDA; it is there while a test looks."""

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return bool(_WATCHES)

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        """The CPU's generator draws for this device too."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


class _Hooks(torch._C._acc.PrivateUse1Hooks):
    def is_available(self) -> bool:
        return bool(_WATCHES)

    def has_primary_context(self, dev_id: int) -> bool:
        return True

    def is_built(self) -> bool:
        return True


_LIBRARIES: list[torch.library.Library] = []
"""What is registered lives as long as these."""


def _register() -> None:
    if _LIBRARIES:
        return
    _setup_privateuseone_for_python_backend(NAME, backend_module=_Module(), hook=_Hooks())
    library, rest = torch.library.Library("aten", "IMPL"), torch.library.Library("_", "IMPL")
    for name in _FACTORIES.split():
        packet, _, overload = name.partition(".")
        operator = getattr(getattr(_ATEN, packet), overload or "default")
        library.impl(name, _factory(operator), "PrivateUse1")
    library.impl("_copy_from", _copy_from, "PrivateUse1")
    for operator, kernel in _OWN.items():
        library.impl(operator.name().removeprefix("aten::"), kernel, "AutogradPrivateUse1")
    for name in _NARROW.split():
        library.impl(name, _narrow(getattr(_ATEN, name).default), "AutocastPrivateUse1")
    rest.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    _LIBRARIES.extend((library, rest))
