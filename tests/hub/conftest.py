"""A server that speaks the Hub's protocol, and a cache of its own for each test."""

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_server import Hub, running

from attnscope.hub import asking, library

hub_library = pytest.importorskip("huggingface_hub")
constants = importlib.import_module("huggingface_hub.constants")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A local cache of its own, a network that may be asked, and nobody logged in."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(library, "_is_offline_by_choice", lambda: False)
    monkeypatch.setattr(asking, "hub_token", lambda: "")
    return tmp_path / "cache"


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
