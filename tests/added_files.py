"""One more file in a package of schemes, as if it had been added to its folder."""

from pathlib import Path
from types import ModuleType

import pytest


def look_also_in(folder: Path, package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the files of `folder` be modules of `package` until the test ends."""
    folders = [*package.__path__, str(folder)]
    monkeypatch.setattr(package, "__path__", folders)
    monkeypatch.setattr(package.__spec__, "submodule_search_locations", folders)
