"""The contents of a bundle: every module that is imported late, and nothing superfluous.

A bundler follows imports. It does not see modules found in a folder (schemes, labs, questions, commands,
views, families of models, the worker's answers), names given to `import_module`, or what the studies import,
which lie among the resources. So it is given their names, and its analysis is asked for each of them before
anything is built.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from . import ROOT

OPTIONAL = ("transformers",)
"""What the extra `hf` adds: a bundle may come without it, and then opens no Hugging Face models."""
NEVER = ("IPython", "matplotlib", "pandas")
"""What a person may have beside AttnScope in Python; a bundle, which has no Python prompt, does without."""
LATE_IN_LIBRARIES = ("sacrebleu.tokenizers",)
"""Packages of libraries which import their own modules by name."""
_TESTS_OF_TORCH = (
    *(
        "autograd_function_db",
        "codegen",
        "common_cuda",
        "common_device_type",
        "common_distributed",
        "common_fsdp",
    ),
    *("common_jit", "common_methods_invocations", "common_modules", "common_nn", "common_optimizers"),
    *("common_pruning", "common_quantization", "common_quantized", "common_utils", "composite_compliance"),
    *("custom_op_db", "data", "generated", "hop_db", "hypothesis_utils", "inductor_utils", "jit_utils"),
    *("jit_metaprogramming_utils", "opinfo", "quantization_torch_package_models", "test_module"),
    *("torchbind_impls", "triton_utils"),
)
"""torch imports a few modules beside them; these are for its own tests."""
EXCLUDED = (
    *(*NEVER, "pip", "setuptools", "sqlite3", "tkinter"),
    *("PySide6.QtDesigner", "PySide6.QtHelp", "PySide6.QtOpenGL", "PySide6.QtOpenGLWidgets", "PySide6.QtQml"),
    *("PySide6.QtQuick", "PySide6.QtQuickControls2", "PySide6.QtQuickTest", "PySide6.QtQuickWidgets"),
    *("PySide6.QtSql", "PySide6.QtTest", "PySide6.QtUiTools", "PySide6.QtXml"),
    *("PySide6.QtWebEngineCore", "PySide6.QtWebEngineWidgets"),
    *("pyqtgraph.examples", "pyqtgraph.jupyter", "pyqtgraph.opengl"),
    *(
        "torch._dynamo.test_case",
        "torch.distributed._tools",
        "torch.distributed.tensor._ops.strategy_validation",
    ),
    *("torch.utils.benchmark", "torch.utils.tensorboard"),
    *(f"torch.testing._internal.{name}" for name in _TESTS_OF_TORCH),
)
"""Modules that the analysis does not follow, besides all that only the builder's tools need."""
_LEFT_OUT_FOLDERS = (
    *("PySide6/Qt/metatypes", "PySide6/Qt/qml", "PySide6/examples"),
    *("PySide6/translations", "PySide6/Qt/translations", "numpy/tests", "pyqtgraph/examples"),
    *("torch/bin", "torch/include", "torch/share", "torch/test"),
    *("torch/utils/tensorboard", "torch/utils/model_dump"),
)
_LEFT_OUT_NAMES = (
    *("libQt6Designer", "libQt6Help", "libQt6Pdf", "libQt6Qml", "libQt6Quick", "libQt6Sql", "libQt6Test"),
    *("libQt6VirtualKeyboard", "libQt6WebEngine", "libqtvirtualkeyboard"),
    *("Qt6Designer", "Qt6Pdf", "Qt6Qml", "Qt6Quick", "Qt6WebEngine"),
    *("libcublas", "libcuda", "libcudnn", "libcufft", "libcurand", "libcusolver", "libcusparse", "libnccl"),
    *("libnv", "libQt6EglFS", "libqeglfs", "libqlinuxfb", "libqvnc", "libqminimalegl"),
    *(
        "libqgtk3",
        "libatk",
        "libblkid",
        "libcairo",
        "libdatrie",
        "libfribidi",
        "libgdk",
        "libgio",
        "libgmodule",
    ),
    *("libgobject", "libgtk", "libmount", "libpango", "libpixman", "libselinux", "libthai"),
    *("libtorch_cuda", "libc10_cuda"),
    *("libtorchbind_test", "libjitbackend_test", "libbackend_with_compiler", "libaoti_custom_ops"),
)
_NEEDED = ("torch/bin/torch_shm_manager",)
"""What torch asks for on import, though it lies among what stays out."""
_LEFT_OUT_SUFFIXES = (".a", ".h", ".hpp", ".lib", ".pyi", ".typed")


def own_modules(root: Path = ROOT) -> list[str]:
    """Every module of the package, by name, in order of the alphabet; none is imported."""
    return sorted(_name_of(path, root) for path in (root / "attnscope").rglob("*.py"))


def _name_of(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def outside_imports(root: Path = ROOT) -> tuple[str, ...]:
    """Every module of others that the package or a study imports, wherever in a file it does.

    Imports for type checkers alone are left out, and so are `NEVER` and what Python itself holds compiled.
    """
    files = [*(root / "attnscope").rglob("*.py"), *(root / "resources" / "studies").glob("*.py")]
    named = {name for path in files for name in imports_of(path.read_text(encoding="utf-8"))}
    known = {"attnscope", *NEVER, *sys.builtin_module_names}
    return tuple(sorted(name for name in named if name.partition(".")[0] not in known))


def imports_of(source: str) -> Iterator[str]:
    """The modules that a file names in imports and in `import_module`, in any function."""
    rest: list[ast.AST] = [ast.parse(source)]
    while rest:
        node = rest.pop()
        if isinstance(node, ast.If) and _word(node.test) == "TYPE_CHECKING":
            rest += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
        elif isinstance(node, ast.Call) and _word(node.func) == "import_module" and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value
        rest += ast.iter_child_nodes(node)


def _word(node: ast.expr) -> str:
    """The last word of a name such as `typing.TYPE_CHECKING`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def is_optional(module: str) -> bool:
    """Whether a module belongs to a package that a bundle may come without."""
    return module.partition(".")[0] in OPTIONAL


def wanted_modules(*, has_library: bool, root: Path = ROOT) -> list[str]:
    """Modules for the bundler: ours and all their imports; the library only on request."""
    outside = [name for name in outside_imports(root) if has_library or not is_optional(name)]
    return sorted({*own_modules(root), *outside})


def beside_sources(entries: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """The files of a bundle, as (place, source, kind), with compiled modules where Python looks for them.

    torch and transformers read their own sources, which so come along. Beside its source a compiled module
    would be skipped, and the source compiled at every start: it belongs into `__pycache__`.
    """
    entries = list(entries)
    places = {place.replace("\\", "/") for place, _, _ in entries}
    found = []
    for place, source, kind in entries:
        folder, _, file = place.replace("\\", "/").rpartition("/")
        if file.endswith(".pyc") and place.replace("\\", "/").removesuffix("c") in places:
            name = f"{file.removesuffix('.pyc')}.{sys.implementation.cache_tag}.pyc"
            place = "/".join(part for part in (folder, "__pycache__", name) if part)
        found.append((place, source, kind))
    return found


def module_names(places: Iterable[str]) -> set[str]:
    """The modules that files are, compiled from Python or from C, by their places in the bundle.

    Extensions of Python itself, which lie in a folder of their own, go by their bare name.
    """
    names = set()
    for place in places:
        folder, _, file = place.replace("\\", "/").replace("__pycache__/", "").rpartition("/")
        name = file.partition(".")[0]
        above = "" if folder.endswith("lib-dynload") else folder.replace("/", ".")
        names.add(".".join(part for part in (above, "" if name == "__init__" else name) if part))
    return names


def missing_modules(held: Iterable[str], *, has_library: bool, root: Path = ROOT) -> list[str]:
    """The wanted modules that an analysis does not hold; those of Python itself are not asked for."""
    own = {*held, *sys.stdlib_module_names}
    wanted = wanted_modules(has_library=has_library, root=root)
    return [
        name for name in wanted if name not in own and name.partition(".")[0] not in sys.stdlib_module_names
    ]


def is_left_out(place: str) -> bool:
    """Whether a file of a library, by its place in the bundle, stays out."""
    place = place.replace("\\", "/")
    if place in _NEEDED:
        return False
    folder, _, name = place.rpartition("/")
    return (
        any(f"{folder}/".startswith(f"{left_out}/") for left_out in _LEFT_OUT_FOLDERS)
        or name.startswith(_LEFT_OUT_NAMES)
        or (name.endswith(_LEFT_OUT_SUFFIXES) and not place.startswith("attnscope/"))
        or "/tests/" in f"/{folder}/"
    )
