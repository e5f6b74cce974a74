"""Choosing where a model computes."""

import torch

from attnscope.errors import UserError

DEVICE_NAMES = ("auto", "cpu", "cuda", "mps")
_DEVICE_WORDS = (
    "CUDA error",
    "HIP error",
    "MPS backend error",
    "cuDNN error",
    "CUBLAS error",
    "CUDA driver error",
)


def choose_device(name: str = "auto") -> torch.device:
    """The device that `name` means; `auto` takes an accelerator when there is one, `cuda:1` the second GPU.

    Raises UserError for an unknown name and for a device this machine does not have.
    """
    kind, colon, number = name.partition(":")
    if kind not in DEVICE_NAMES or (colon and not (kind == "cuda" and number.isdecimal())):
        raise UserError(
            f"The device {name!r} is not known.",
            expected="one of " + ", ".join(DEVICE_NAMES) + ", or cuda:1 for the second GPU",
            action="Choose one of them.",
        )
    has = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if kind == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if has[kind]))
    if not has[kind] or (number and int(number) >= torch.cuda.device_count()):
        there = [kind for kind in ("cpu", "cuda", "mps") if has[kind]]
        there += [f"cuda:{index}" for index in range(1, torch.cuda.device_count() if has["cuda"] else 0)]
        raise UserError(
            f"This computer has no usable {name} device.",
            expected="one of " + ", ".join(there),
            action="Choose auto or cpu.",
        )
    found = torch.device(name)
    if number:
        torch.cuda.set_device(found)  # streams, and what a GPU can do, are asked of the current one
    return found


def wait_for(device: torch.device) -> None:
    """Wait until the device has done all it was asked for, so that a time can be taken."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def lost_device(error: BaseException) -> UserError | None:
    """What to tell a person whose accelerator gave up in the middle; None for every other error.

    After such a fault every later call of the process on that device fails too (CUDA C++ Programming Guide,
    "Error Checking"), so the words do not advise to try again. Memory that ran out is no such fault.
    """
    words = str(error).strip()
    is_of_device = isinstance(error, torch.AcceleratorError) or (
        isinstance(error, RuntimeError) and words.startswith(_DEVICE_WORDS)
    )
    if not is_of_device or isinstance(error, torch.OutOfMemoryError):
        return None
    first = words.splitlines()[0][:200] if words else type(error).__name__
    return UserError(
        f"The graphics device stopped responding: {first.rstrip('.')}.",
        expected="a working device",
        action="Files on disk are intact: a run continues from its last checkpoint. Start AttnScope "
        "again "
        "to use the device, or open the model on the CPU (--device cpu).",
    )
