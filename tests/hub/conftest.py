"""A server that speaks the Hub's protocol, and a cache of its own for each test."""

import hashlib
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hub_server import Hub, running

from attnscope.hub import fetching, shelf
from attnscope.records import ShelfEntry

hub_library = pytest.importorskip("huggingface_hub")
constants = importlib.import_module("huggingface_hub.constants")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A local cache of its own, a network that may be asked, and nobody logged in."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(shelf, "_is_offline_by_choice", lambda: False)
    monkeypatch.setattr(fetching, "hub_token", lambda: "")
    return tmp_path / "cache"


@pytest.fixture
def carry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Installs a package, whose own code must not run, that carries a model; gives the model's folder."""

    def install(folder: Path, short: str = "") -> Path:
        root = tmp_path / "site" / "carrying"
        (root / "model").mkdir(parents=True)
        (root / "__init__.py").write_text("raise SystemExit('the package was run')")
        for path in folder.iterdir():
            (root / "model" / path.name).write_bytes(path.read_bytes())
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        importlib.invalidate_caches()
        weights = (folder / "model.safetensors").read_bytes()
        entry = ShelfEntry(
            name="someone/carried",
            title="Carried",
            kind="next token",
            look_for="Nothing.",
            n_parameters=1,
            about_mb=1,
            licence="MIT",
            package="carrying",
            file="model/model.safetensors",
            sha256=hashlib.sha256(weights).hexdigest(),
            short=short,
        )
        entries = shelf.shelf_entries()
        monkeypatch.setattr(shelf, "shelf_entries", lambda: (*entries, entry))
        return root / "model"

    return install


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """The server, with one small model of three files."""
    with running(Hub()) as server:
        server.models["someone/tiny"] = {
            "config.json": b'{"model_type": "gpt2"}',
            "tokenizer.json": b"{}" * 50,
            "model.safetensors": bytes(range(256)) * 2000,
            "pytorch_model.bin": b"pickle",
            "modeling_tiny.py": b"import os",
            "README.md": b"---\nlicense: mit\n---\n",
            ".gitattributes": b"x",
        }
        monkeypatch.setattr(constants, "ENDPOINT", server.address)
        yield server
