"""Models that an installed package carries, and models that a name downloads and opens."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hf_folders import make, save_folder
from hub_server import Hub, status

from attnscope.errors import LoadError, Stopped
from attnscope.hub.fetching import ask_hub, fetch
from attnscope.hub.shelf import cached_snapshot, carried_folder, shelf_rows
from attnscope.models import load
from attnscope.nn import progress_heard, stoppable

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_folder(tmp_path_factory.mktemp("tiny") / "gpt2", *make("gpt2"))


@pytest.fixture
def package(tiny: Path, carry: Callable[..., Path]) -> Path:
    return carry(tiny)


def test_that_a_carried_model_stands_first_and_opens_without_the_network(package: Path, hub: Hub) -> None:
    row = shelf_rows()[0]
    assert (row.entry.title, row.place, row.source) == ("Carried", "package", "someone/carried")
    assert row.n_bytes == sum(path.stat().st_size for path in package.iterdir())
    assert load("someone/carried", "cpu").info.name == "someone/carried"
    assert load("hf:someone/carried", "cpu").info.name == "someone/carried"
    assert hub.asked == []
    assert "carrying" not in sys.modules, "the package itself is not run"


def test_that_carried_weights_of_another_hash_are_refused(package: Path) -> None:
    weights = package / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    with pytest.raises(LoadError, match="not those of someone/carried") as caught:
        load("someone/carried", "cpu")
    assert caught.value.kind == "checksum"
    assert "carrying" in str(caught.value)


def test_that_a_package_that_is_not_installed_carries_nothing(package: Path) -> None:
    (package / "model.safetensors").unlink()
    assert carried_folder("someone/carried") is None
    assert shelf_rows()[-1].place == "away"


def test_that_a_name_with_the_prefix_downloads_and_opens(tiny: Path, hub: Hub) -> None:
    hub.add_folder("someone/new", tiny)
    with pytest.raises(LoadError, match="run attnscope get someone/new"):
        load("someone/new", "cpu")
    assert hub.asked == []
    model = load("hf:someone/new", "cpu")
    assert model.info.name == "someone/new"
    n_asked = len(hub.asked)
    assert load("someone/new", "cpu").info.sha256 == model.info.sha256
    assert load("hf:someone/new", "cpu").info.sha256 == model.info.sha256
    assert len(hub.asked) == n_asked


def test_that_a_model_of_the_shelf_opens_by_its_short_name(tiny: Path, hub: Hub) -> None:
    hub.add_folder("openai-community/gpt2", tiny)
    with pytest.raises(LoadError):
        load("gpt2", "cpu")
    load("hf:gpt2", "cpu")
    assert hub.asked[0][0] == "/api/models/openai-community/gpt2/revision/main"
    hub.asked.clear()
    for name in ("gpt2", "openai-community/gpt2", "hf:gpt2"):
        assert load(name, "cpu").info.n_parameters > 0
    assert hub.asked == []


def test_that_a_model_cached_by_its_older_name_opens_by_the_newer(tiny: Path, hub: Hub) -> None:
    hub.add_folder("gpt2", tiny)
    list(fetch(ask_hub("gpt2")))
    hub.asked.clear()
    for name in ("gpt2", "openai-community/gpt2", "hf:openai-community/gpt2"):
        assert load(name, "cpu").info.n_parameters > 0
    assert hub.asked == []


def test_that_opening_by_name_is_given_up_in_the_middle_of_a_pause(tiny: Path, hub: Hub) -> None:
    hub.add_folder("someone/new", tiny)
    hub.faults["model.safetensors"] = [status(429, **{"Retry-After": "100"})]
    told: list[object] = []
    with (
        pytest.raises(Stopped),
        progress_heard(told.append),
        stoppable(lambda: any("100 s" in str(t) for t in told)),
    ):
        load("hf:someone/new", "cpu")
    assert cached_snapshot("someone/new") is None
