"""Choosing where a model computes."""

import torch

from attnscope.errors import UserError

DEVICE_NAMES = ("auto", "cpu", "cuda", "mps")


def choose_device(name: str = "auto") -> torch.device:
    """The device that `name` means; `auto` takes an accelerator when there is one.

    Raises UserError for an unknown name and for a device this machine does not have.
    """
    if name not in DEVICE_NAMES:
        raise UserError(
            f"The device {name!r} is not known.",
            expected="one of " + ", ".join(DEVICE_NAMES),
            action="Choose one of them.",
        )
    has = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if has[kind]))
    if not has[name]:
        raise UserError(
            f"This machine has no usable {name} device.",
            expected="one of " + ", ".join(kind for kind in ("cpu", "cuda", "mps") if has[kind]),
            action="Choose auto or cpu.",
        )
    return torch.device(name)
