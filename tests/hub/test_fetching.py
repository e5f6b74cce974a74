"""Downloading from a server that drops, lies, refuses and changes what it sends."""

import contextlib
import errno
import itertools
import os
import threading
from pathlib import Path

import pytest
from hub_server import (
    COMMIT,
    Handler,
    Hub,
    changed,
    drop_after,
    ignore_range,
    lie_about_length,
    page,
    redirect,
    running,
    status,
    without_length,
)

from attnscope.errors import LoadError
from attnscope.hub import fetching, shelf
from attnscope.hub.fetching import FetchPace, ask_hub, fetch, forget_parts
from attnscope.hub.shelf import cached_snapshot, part_paths, shelf_rows, whole_snapshot
from attnscope.records import FetchStep, progress_words

NAME, WEIGHTS = "someone/tiny", "model.safetensors"


def fetch_all() -> list[FetchStep]:
    return list(fetch(ask_hub(NAME)))


def require_nothing_half(cache: Path) -> None:
    assert cached_snapshot(NAME) is None
    assert all(path.suffix == ".part" for path in (cache / "models--someone--tiny" / "blobs").iterdir())


def test_that_a_download_is_a_snapshot_of_the_library_with_the_very_bytes(hub: Hub, cache: Path) -> None:
    steps = fetch_all()
    snapshot = whole_snapshot(NAME)
    assert snapshot == cache / "models--someone--tiny" / "snapshots" / COMMIT
    kept = {path.name: path.read_bytes() for path in snapshot.iterdir()}
    assert kept == {n: c for n, c in hub.models[NAME].items() if n.endswith((".json", ".safetensors", ".md"))}
    assert (cache / "models--someone--tiny" / "refs" / "main").read_text() == COMMIT
    assert steps[-1].n_done == steps[-1].n_total == sum(map(len, kept.values()))
    assert [step.n_done for step in steps] == sorted(step.n_done for step in steps)
    assert part_paths(NAME) == []


def test_that_the_library_itself_finds_what_was_downloaded(hub: Hub, cache: Path) -> None:
    library = pytest.importorskip("huggingface_hub")
    fetch_all()
    found = library.try_to_load_from_cache(NAME, WEIGHTS, cache_dir=str(cache))
    assert Path(found).read_bytes() == hub.models[NAME][WEIGHTS]


def test_that_a_download_broken_off_goes_on_where_it_was(hub: Hub, cache: Path) -> None:
    with contextlib.closing(fetch(ask_hub(NAME))) as steps:
        before = next(step for step in steps if step.n_done > 100_000)
    require_nothing_half(cache)
    offer = ask_hub(NAME)
    assert offer.n_here == before.n_done
    hub.asked.clear()
    again = list(fetch(offer))
    ranges = [headers["Range"] for path, headers in hub.asked if path.endswith(WEIGHTS)]
    small = sum(file.n_bytes for file in offer.files[:-1])
    assert ranges == [f"bytes={before.n_done - small}-"]
    assert len(hub.asked) == 1, "what was whole is not fetched again"
    assert again[-1].n_done == offer.n_bytes
    assert (whole_snapshot(NAME) / WEIGHTS).read_bytes() == hub.models[NAME][WEIGHTS]


def test_that_giving_up_leaves_nothing(hub: Hub, cache: Path) -> None:
    with contextlib.closing(fetch(ask_hub(NAME))) as steps:
        next(step for step in steps if step.n_done > 100_000)
    assert part_paths(NAME)
    forget_parts(NAME)
    assert not (cache / "models--someone--tiny").exists()


def test_that_giving_up_leaves_a_snapshot_alone(hub: Hub, cache: Path) -> None:
    fetch_all()
    (cache / "models--someone--tiny" / "blobs" / "x.part").write_bytes(b"half")
    forget_parts(NAME)
    assert part_paths(NAME) == []
    assert whole_snapshot(NAME) is not None


def test_that_a_dropped_connection_is_taken_up_where_it_broke(hub: Hub) -> None:
    hub.faults[WEIGHTS] = [drop_after(1000), drop_after(70_000), drop_after(0), ignore_range]
    waits = [step.wait_s for step in fetch_all() if step.wait_s]
    assert waits == [1.0, 1.0, 2.0], "the pauses begin anew whenever something new has come"
    assert (whole_snapshot(NAME) / WEIGHTS).read_bytes() == hub.models[NAME][WEIGHTS]


def test_that_a_server_that_always_drops_is_given_up_and_what_came_is_kept(hub: Hub, cache: Path) -> None:
    hub.faults[WEIGHTS] = [drop_after(1000), *[drop_after(0)] * 9]
    with pytest.raises(LoadError, match="broke off") as caught:
        fetch_all()
    assert caught.value.kind == "unreachable"
    assert "What has been downloaded is kept" in str(caught.value)
    require_nothing_half(cache)
    assert len([path for path, _ in hub.asked if path.endswith(WEIGHTS)]) == 1 + len(fetching.PAUSES_S)


def test_that_a_server_that_sends_all_anew_and_drops_is_given_up(hub: Hub) -> None:
    hub.faults[WEIGHTS] = (
        [without_length()] * 0
        + [drop_after(5000)]
        + [lambda handler, content: handler.answer(200, content[:3000], n_told=len(content))] * 20
    )
    with pytest.raises(LoadError, match="broke off"):
        fetch_all()
    assert hub.faults[WEIGHTS], "it is not tried for ever"


@pytest.mark.parametrize("n_more", [-7, 7, 10**12])
def test_that_a_server_that_lies_about_the_length_is_refused(hub: Hub, cache: Path, n_more: int) -> None:
    hub.faults[WEIGHTS] = [lie_about_length(n_more)]
    with pytest.raises(LoadError, match="would come with") as caught:
        fetch_all()
    assert "differs from the Hub's list" in str(caught.value)
    require_nothing_half(cache)


def test_that_what_has_no_end_is_not_written_to_the_end(hub: Hub, cache: Path) -> None:
    hub.faults[WEIGHTS] = [without_length(b"more" * 100_000)]
    with pytest.raises(LoadError, match=r"model\.safetensors is longer than"):
        fetch_all()
    require_nothing_half(cache)
    assert sum(path.stat().st_size for path in part_paths(NAME)) < 1000


def test_that_a_file_without_a_length_is_fetched(hub: Hub) -> None:
    hub.faults[WEIGHTS] = [without_length()]
    fetch_all()
    assert whole_snapshot(NAME) is not None


@pytest.mark.parametrize(("file", "digest"), [(WEIGHTS, "SHA-256"), ("config.json", "Git SHA-1")])
def test_that_a_file_with_another_checksum_is_removed(hub: Hub, cache: Path, file: str, digest: str) -> None:
    hub.faults[file] = [changed]
    with pytest.raises(LoadError, match=rf"Expected: {digest} ") as caught:
        fetch_all()
    assert caught.value.kind == "checksum"
    require_nothing_half(cache)
    fetch_all()
    assert (whole_snapshot(NAME) / file).read_bytes() == hub.models[NAME][file]


def test_that_a_part_that_was_changed_meanwhile_is_not_believed(hub: Hub) -> None:
    with contextlib.closing(fetch(ask_hub(NAME))) as steps:
        next(step for step in steps if step.n_done > 100_000)
    part = max(part_paths(NAME), key=lambda path: path.stat().st_size)
    part.write_bytes(b"?" * part.stat().st_size)
    with pytest.raises(LoadError, match="checksum"):
        fetch_all()
    fetch_all()
    assert (whole_snapshot(NAME) / WEIGHTS).read_bytes() == hub.models[NAME][WEIGHTS]


def test_that_a_file_of_the_cache_that_is_damaged_is_fetched_again(hub: Hub, cache: Path) -> None:
    fetch_all()
    weights = (whole_snapshot(NAME) / WEIGHTS).resolve()
    weights.write_bytes(b"!" * weights.stat().st_size)
    fetch_all()
    assert (whole_snapshot(NAME) / WEIGHTS).read_bytes() == hub.models[NAME][WEIGHTS]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (page, "a web page"),
        (status(401, **{"X-Error-Code": "GatedRepo"}), "accepted its terms"),
        (status(404, **{"X-Error-Code": "EntryNotFound"}), "404 .EntryNotFound"),
        (status(416), "416"),
        (status(429, **{"Retry-After": "9999"}), "asks to wait 9,999 s"),
        (redirect("ftp://127.0.0.1"), "redirects to ftp|302"),
    ],
)
def test_that_a_refusal_in_the_middle_is_told_and_what_came_is_kept(
    hub: Hub, cache: Path, fault, told: str
) -> None:
    hub.faults[WEIGHTS] = [fault]
    with pytest.raises(LoadError, match=told):
        fetch_all()
    require_nothing_half(cache)
    assert len(part_paths(NAME)) == 4
    fetch_all()
    assert whole_snapshot(NAME) is not None


def test_that_a_busy_server_is_waited_for_as_long_as_it_asks(hub: Hub) -> None:
    hub.faults[WEIGHTS] = [status(429, **{"Retry-After": "17"}), status(503)]
    waiting = [step for step in fetch_all() if step.wait_s]
    assert [step.wait_s for step in waiting] == [17.0, 2.0]
    assert "asks to wait 17 s" in waiting[0].why
    assert "503" in waiting[1].why
    assert whole_snapshot(NAME) is not None


def test_that_a_file_may_come_from_another_server(hub: Hub) -> None:
    with running(Hub()) as other:
        other.models = hub.models
        hub.faults[WEIGHTS] = [redirect(other.address)]
        fetch_all()
        assert [path for path, _ in other.asked] == [f"/{NAME}/resolve/{COMMIT}/{WEIGHTS}"]
    assert (whole_snapshot(NAME) / WEIGHTS).read_bytes() == hub.models[NAME][WEIGHTS]


def test_that_another_server_is_not_believed_either(hub: Hub, cache: Path) -> None:
    with running(Hub()) as other:
        other.models[NAME] = {**hub.models[NAME], WEIGHTS: b"x" * len(hub.models[NAME][WEIGHTS])}
        hub.faults[WEIGHTS] = [redirect(other.address)]
        with pytest.raises(LoadError, match="checksum"):
            fetch_all()
    require_nothing_half(cache)


def test_that_a_full_disk_is_told_and_what_came_is_kept(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = itertools.count()

    def write(descriptor: int, data: memoryview) -> int:
        if next(calls) == 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(descriptor, data[:1000] if len(data) > 40_000 else data)

    monkeypatch.setattr(fetching, "write_bytes", write)
    with pytest.raises(LoadError, match="No space left on device") as caught:
        fetch_all()
    assert caught.value.kind == "full"
    require_nothing_half(cache)
    fetch_all()
    assert (whole_snapshot(NAME) / WEIGHTS).read_bytes() == hub.models[NAME][WEIGHTS]


def test_that_room_is_looked_for_before_anything_is_fetched(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = fetching.shutil.disk_usage("/")
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda _: usage._replace(free=1000))
    offer = ask_hub(NAME)
    hub.asked.clear()
    with pytest.raises(LoadError, match=r"needs 512 kB and .* has 1 kB left"):
        list(fetch(offer))
    assert hub.asked == []


def test_that_a_folder_that_cannot_be_made_is_told(hub: Hub, cache: Path) -> None:
    cache.write_bytes(b"a file")
    with pytest.raises(LoadError) as caught:
        fetch_all()
    assert caught.value.kind == "full"


def test_that_two_do_not_download_one_model_at_a_time(hub: Hub) -> None:
    with contextlib.closing(fetch(ask_hub(NAME))) as steps:
        next(steps)
        with pytest.raises(LoadError, match="Another AttnScope is downloading someone/tiny"):
            fetch_all()
        with pytest.raises(LoadError, match="Another AttnScope"):
            forget_parts(NAME)
    fetch_all()


@pytest.mark.parametrize("fails", [("symlink_to",), ("symlink_to", "link")])
def test_that_a_disk_without_links_holds_the_files_themselves(
    hub: Hub, fails: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    if "link" in fails:
        monkeypatch.setattr(os, "link", refuse)
    fetch_all()
    snapshot = whole_snapshot(NAME)
    assert not any(path.is_symlink() for path in snapshot.iterdir())
    assert (snapshot / WEIGHTS).read_bytes() == hub.models[NAME][WEIGHTS]


def test_that_an_empty_file_is_a_file(hub: Hub) -> None:
    hub.models[NAME]["merges.txt"] = b""
    hub.change_list = lambda values: values
    fetch_all()
    assert (whole_snapshot(NAME) / "merges.txt").read_bytes() == b""


def test_that_the_shelf_knows_what_is_here_in_part_and_away(hub: Hub, cache: Path) -> None:
    hub.models["openai-community/gpt2"] = hub.models[NAME]
    assert {row.place for row in shelf_rows()} == {"away"}
    fetch_all()
    with contextlib.closing(fetch(ask_hub("openai-community/gpt2"))) as steps:
        n_done = next(step.n_done for step in steps if step.n_done > 100_000)
    first, second, *others = shelf_rows()
    assert (first.entry.name, first.place, first.source) == (NAME, "cache", NAME)
    assert first.n_bytes == ask_hub(NAME).n_bytes
    assert (second.entry.title, second.place, second.source) == ("GPT-2 small", "partial", "")
    assert second.n_bytes == n_done
    assert {row.place for row in others} == {"away"}


def test_that_a_model_cached_before_it_had_an_owner_is_found(hub: Hub, cache: Path) -> None:
    hub.models["gpt2"] = hub.models[NAME]
    list(fetch(ask_hub("gpt2")))
    row = shelf_rows()[0]
    assert (row.entry.name, row.place, row.source) == ("openai-community/gpt2", "cache", "gpt2")
    assert [row.entry.title for row in shelf_rows()].count("gpt2") == 0


def test_that_a_snapshot_without_all_its_shards_is_not_whole(cache: Path) -> None:
    snapshot = cache / "models--a--b" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    assert cached_snapshot("a/b") == snapshot
    assert whole_snapshot("a/b") is None
    (snapshot / shelf.INDEX).write_text('{"weight_map": {"x": "one.safetensors", "y": "two.safetensors"}}')
    (snapshot / "one.safetensors").write_bytes(b"1")
    assert whole_snapshot("a/b") is None
    (snapshot / "two.safetensors").write_bytes(b"2")
    assert whole_snapshot("a/b") == snapshot


def test_that_a_folder_that_may_not_be_read_is_no_model_here(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> None:
        raise PermissionError(errno.EACCES, name)

    fetch_all()
    monkeypatch.setattr(shelf, "whole_snapshot", refuse)
    assert {row.place for row in shelf_rows()} == {"away"}


def test_that_a_server_that_stalls_is_not_waited_for_without_end(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()

    def stall(handler: Handler, content: bytes) -> None:
        handler.answer(200, content[:1000], n_told=len(content))
        is_over.wait(60.0)

    monkeypatch.setattr(fetching, "TIMEOUT_S", 0.05)
    hub.faults[WEIGHTS] = [stall]
    waiting = [step for step in fetch_all() if step.wait_s]
    is_over.set()
    assert "cannot be reached (timed out)" in waiting[0].why
    assert whole_snapshot(NAME) is not None


def test_that_pace_is_that_of_the_last_seconds() -> None:
    times = iter([0.0, 0.4, 1.0, 2.0, 8.5])
    pace = FetchPace(lambda: next(times))
    assert pace.of(0) is None
    assert pace.of(10) is None
    assert pace.of(1000) == pytest.approx(1000.0)
    assert pace.of(2000) == pytest.approx(1000.0)
    assert pace.of(2650) == pytest.approx(100.0)
    pace.forget()


def test_that_progress_is_told_in_words() -> None:
    step = FetchStep(n_done=120_000_000, n_total=551_010_101, per_s=4.2e6, remaining_s=103.0)
    assert progress_words(step) == "120 MB of 551 MB, 4.2 MB/s, about 2 min left"
    waiting = FetchStep(n_done=0, n_total=1000, wait_s=4.0, why="It broke off.")
    assert progress_words(waiting) == "0 bytes of 1 kB; It broke off. Next try in 4 s"
