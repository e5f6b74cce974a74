"""Tiny models in folders, and an engine that notes what it would write to the crash log."""

from pathlib import Path

import pytest
from worker_tools import save_tiny

from attnscope.workers import Engine


@pytest.fixture
def decoder(tmp_path: Path) -> str:
    """The folder of a tiny causal model."""
    return save_tiny(tmp_path / "decoder", "decoder")


@pytest.fixture
def translator(tmp_path: Path) -> str:
    """The folder of a tiny translation model."""
    return save_tiny(tmp_path / "translator", "encoder-decoder")


@pytest.fixture
def crashes() -> list[str]:
    """What was written to the crash log: kind of error and what was being done."""
    return []


@pytest.fixture
def engine(crashes: list[str]) -> Engine:
    """An engine with nothing open."""

    def write(error: BaseException, doing: str) -> Path:
        crashes.append(f"{type(error).__name__} {doing}")
        return Path("crash.log")

    return Engine(write)
