"""`attnscope get`: the shelf of open models, and downloading one after confirmation."""

import argparse
import dataclasses
import sys
import time

from attnscope.cli.terminal import STOPPED, one_line, say, say_error, say_json, say_progress
from attnscope.counting import bytes_text, percent
from attnscope.errors import UserError, meant
from attnscope.hub.fetching import ask_hub, fetch_now
from attnscope.hub.shelf import find_row, folder_here, full_name, shelf_entries, shelf_rows
from attnscope.records.models import FetchStep, ModelOffer, ShelfRow, progress_words, size_words, typed_name

_TOLD_EVERY_S, _TOLD_EVERY_PART = 0.2, 0.1
_STATES = {"package": "installed", "cache": "on this computer", "partial": "begun", "away": ""}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("get")
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="a model of the shelf, or any owner/name of the Hub"
    )
    parser.add_argument(
        "--list", action="store_true", help="instead, list the shelf; does not use the network"
    )
    parser.add_argument("--yes", action="store_true", help="download without asking")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """List the shelf, or get a model."""
    if arguments.list:
        return _list(is_json=arguments.json)
    if not arguments.name:
        raise UserError("There is no model to get.", expected="NAME or --list", action="Name one.")
    name = _name_of(arguments.name)
    row = find_row(name)
    if row.is_here:
        return _tell_here(row, is_json=arguments.json)
    offer = ask_hub(name)
    if not arguments.yes:
        _require_consent(offer)
    try:
        fetch_now(offer, _Progress())
    except KeyboardInterrupt:
        say_progress("")
        say_error(
            f"attnscope: stopped. What has been downloaded is kept: attnscope get {name} continues "
            "from there."
        )
        return STOPPED
    return _tell_here(find_row(name), is_json=arguments.json, offer=offer)


def _name_of(given: str) -> str:
    """The owner/name of a model; raises UserError for a short name that is not on the shelf."""
    name = full_name(typed_name(given))
    if "/" not in name:
        known = (short for entry in shelf_entries() for short in (entry.name.rpartition("/")[2], entry.title))
        raise UserError(
            f"There is no model {name[:100]!r} on the shelf.",
            expected="a name of attnscope get --list, or owner/name",
            action=f"{meant(name, known)}The network was not used.",
        )
    return name


def _list(*, is_json: bool) -> int:
    rows = shelf_rows()
    if is_json:
        say_json([{**dataclasses.asdict(row.entry), **_place(row)} for row in rows])
        return 0
    width = max(len(row.entry.name) for row in rows)
    for row in rows:
        entry = row.entry
        size = size_words(row)
        state = _STATES[row.place] + (f", {bytes_text(row.n_bytes)} here" if row.place == "partial" else "")
        facts = f"{one_line(entry.name):<{width}}  {size:<12}  {entry.licence:<11}  {state}"
        say(facts.rstrip())
        if entry.look_for:
            say(f"    {entry.title}, {entry.kind}. {entry.look_for}")
    return 0


def _place(row: ShelfRow) -> dict[str, object]:
    return {"place": row.place, "source": row.source, "n_bytes": row.n_bytes}


def _tell_here(row: ShelfRow, *, is_json: bool, offer: ModelOffer | None = None) -> int:
    """Say where the model is; `offer` if it has just arrived."""
    folder = folder_here(row.source)
    if is_json:
        more = {"host": offer.host, "commit": offer.commit, "licence": offer.licence} if offer else {}
        say_json({"name": row.entry.name, **_place(row), "folder": str(folder), **more})
        return 0
    what = "is on this computer, every file verified" if offer else "is on this computer"
    say(f"{row.entry.name} {what}: {row.n_bytes:,} bytes in {folder}.")
    say(f"Open it with: attnscope open {row.source}")
    return 0


def _require_consent(offer: ModelOffer) -> None:
    """Ask whether to download; raises UserError for anything but a yes."""
    rest = f", of which {offer.n_here:,} are here" if offer.n_here else ""
    licence = f"licence {one_line(offer.licence)}" if offer.licence else "no licence is stated"
    say_error(f"{offer.name}: {offer.n_bytes:,} bytes{rest}, from {offer.host}, {licence}.")
    print("Download? [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline() if sys.stdin is not None else ""
    if answer.strip().lower() not in ("y", "yes"):
        if not answer.endswith("\n"):
            print(file=sys.stderr)
        raise UserError("Nothing was downloaded.", expected="y, or --yes to download without asking")


class _Progress:
    """Reports a download: on a terminal in one changing line, else now and then."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._told_at, self._told = float("-inf"), 0.0

    def __call__(self, step: FetchStep) -> None:
        fraction = step.n_done / max(step.n_total, 1)
        is_last = step.n_done == step.n_total
        if self._is_terminal:
            is_due = time.monotonic() - self._told_at >= _TOLD_EVERY_S
        else:
            is_due = fraction - self._told >= _TOLD_EVERY_PART
        if step.wait_s or is_due or (is_last and self._told < 1.0):
            self._told_at, self._told = time.monotonic(), fraction
            say_progress(f"{progress_words(step)} ({percent(fraction)})")
        if is_last and self._is_terminal:
            say_progress("")
