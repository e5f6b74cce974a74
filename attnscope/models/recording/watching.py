"""Seeing every attention call of one thread while a block lasts, and the module that each is made in.

A `TorchFunctionMode` sees the calls, hooks tell the modules, and PyTorch's inference fast path, which makes
no such call, is switched off meanwhile and put back after. What the functions give is passed on untouched.
"""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from attnscope.errors import UserError
from attnscope.models.recording.folded import Entered, tensor_shapes

_SOFTMAXES = (torch.softmax, F.softmax, Tensor.softmax)
_ATTENTION = "attention", "attn"
Told = Callable[[str, tuple[Any, ...], dict[str, Any], Any], None]
"""Takes the kind of a call (`product`, `layer` or `softmax`), its arguments and what it gave."""


class Calls(TorchFunctionMode):
    """Tells of every attention call; with `has_softmax` of every softmax too."""

    def __init__(self, tell: Told, *, has_softmax: bool) -> None:
        super().__init__()
        self._tell, self._has_softmax = tell, has_softmax

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Make the call, then tell of it."""
        named = kwargs or {}
        found = func(*args, **named)
        if func is F.scaled_dot_product_attention:
            self._tell("product", args, named, found)
        elif func is F.multi_head_attention_forward:
            self._tell("layer", args, named, found)
        elif self._has_softmax and func in _SOFTMAXES:
            self._tell("softmax", args, named, found)
        return found


class ModuleStack:
    """Which modules of this thread are at work, the outermost first; names are paths in `root`.

    Without a root the outermost module that is called is taken for it.
    """

    def __init__(self, root: nn.Module | None) -> None:
        self._root, self._names = root, _paths(root)
        self._stack: list[Entered] = []
        self._thread = threading.get_ident()
        self._handles: list[Any] = []
        self.seen: Counter[str] = Counter()

    def start(self) -> None:
        """Follow every module that is called from here on."""
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]

    def stop(self) -> None:
        """Follow them no more."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    @property
    def is_inside(self) -> bool:
        """Whether a module of the root is at work, or there is no root; outside of all modules counts too."""
        if self._root is None or not self._stack:
            return True
        return any(id(entered.module) in self._names for entered in self._stack)

    @property
    def name(self) -> str:
        """The innermost module's path; its class where it has none, and empty outside of every module."""
        for entered in reversed(self._stack):
            path = self._names.get(id(entered.module))
            if path is not None:
                return path or type(entered.module).__name__
        return type(self._stack[-1].module).__name__ if self._stack else ""

    @property
    def innermost(self) -> nn.Module | None:
        """The innermost module at work."""
        return self._stack[-1].module if self._stack else None

    @property
    def around(self) -> tuple[Entered, ...]:
        """The modules at work, the outermost first."""
        return tuple(self._stack)

    @property
    def is_attention(self) -> bool:
        """Whether the innermost module is named after attention, or its class is."""
        module = self.innermost
        return module is not None and _tells_attention(f"{self.name} {type(module).__name__}")

    @property
    def is_training(self) -> bool:
        """Whether the innermost module is in training mode."""
        return bool(self._stack) and self._stack[-1].module.training

    @property
    def unseen(self) -> tuple[str, ...]:
        """Modules that were called and by their names or classes may well attend."""
        return tuple(self.seen)

    def _enter(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if threading.get_ident() != self._thread:
            return
        if is_compiled(module):
            raise compiled(type(module).__name__)
        if self._root is None and not self._stack:
            self._names = _paths(module)
        self._stack.append(Entered(module=module, shapes=tensor_shapes(args)))
        kind = type(module).__name__
        if _tells_attention(kind):
            self.seen[f"{self.name} ({kind})"] += 1

    def _leave(self, module: nn.Module, _: Any, __: Any) -> None:
        if threading.get_ident() == self._thread and any(module is inside.module for inside in self._stack):
            while self._stack.pop().module is not module:
                pass


class NoFastPath:
    """PyTorch's inference fast path switched off, and put back as it was."""

    def start(self) -> None:
        """Switch it off."""
        self._was = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)

    def stop(self) -> None:
        """Put it back."""
        torch.backends.mha.set_fastpath_enabled(self._was)


def _tells_attention(name: str) -> bool:
    return any(word in name.lower() for word in _ATTENTION)


def is_compiled(module: nn.Module) -> bool:
    """Whether a module is one that torch.compile made, or compiles itself when it is called."""
    is_wrapped = type(module).__name__ == "OptimizedModule" and hasattr(module, "_orig_mod")
    return is_wrapped or getattr(module, "_compiled_call_impl", None) is not None


def compiled(name: str) -> UserError:
    """The error of a module whose attention calls are gone."""
    return UserError(
        f"{name} is compiled: its attention calls are fused into compiled code.",
        expected="the module before torch.compile",
        action="Record the module itself: before `.compile()`, or the one that torch.compile keeps as "
        "`_orig_mod`. Its weights are the same.",
    )


def _paths(root: nn.Module | None) -> dict[int, str]:
    return {} if root is None else {id(module): name for name, module in root.named_modules()}
