"""How AttnScope is packed: what a bundle holds, its papers, its pages, and the packages around it."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""
PACKAGING = ROOT / "packaging"
APP_ID = "io.github.attnscope.AttnScope"


def program_version(root: Path = ROOT) -> str:
    """The version, read from `attnscope/__init__.py` without importing it."""
    tree = ast.parse((root / "attnscope" / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__":
            return str(ast.literal_eval(node.value))
    raise ValueError("attnscope/__init__.py names no __version__")
