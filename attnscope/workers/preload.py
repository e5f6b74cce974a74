"""Importing the engine on the worker thread without freezing the window.

An import holds the interpreter, so torch's big libraries are loaded through ctypes first, which does
not; and the garbage collector stays off meanwhile, which otherwise walks every object a few times.
"""

import ctypes
import gc
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope.workers.views import Views

if TYPE_CHECKING:
    from attnscope.workers.handlers import Engine

TORCH_LIBRARIES = ("libtorch_global_deps", "libc10", "libtorch_cpu", "libtorch", "libtorch_python")


def build_engine(
    write_crash: Callable[[BaseException, str], Path | None], views: Views | None = None
) -> "Engine":
    """Import torch and make the engine; runs on the worker thread. `views` will hold its traces."""
    was_enabled = gc.isenabled()
    preload_torch()
    gc.disable()
    try:
        from attnscope.workers.handlers import Engine
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
    return Engine(write_crash, views)


def preload_torch() -> None:
    """Load torch's big libraries; whatever fails here is told by the import that follows."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations or sys.platform == "win32":
        return
    folder = Path(spec.submodule_search_locations[0]) / "lib"
    suffix = ".dylib" if sys.platform == "darwin" else ".so"
    for name in TORCH_LIBRARIES:
        path = folder / f"{name}{suffix}"
        if not path.is_file():
            continue
        is_global = name == "libtorch_global_deps"
        try:
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL if is_global else ctypes.DEFAULT_MODE)
        except OSError:
            return
