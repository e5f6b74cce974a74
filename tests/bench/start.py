"""How soon a window is there, attention in it, a large model: whole processes, timed from before they exist.

A model of Hugging Face's format is opened by this module as a process, once for each way, up to the first
pass: AttnScope copies the weights and proves its way in, the library maps the file.
"""

import argparse
import importlib
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attnscope.boot import prepared
from attnscope.errors import UserError
from attnscope.paths import resources_folder
from bench.child import command_of, told_by
from bench.report import Measurement, NotRun, Row, is_clear, median_of, percentile

N_RUNS, N_PAGE_RUNS = 3, 7
"""Whole processes of each kind at most: they end once it is clear how a limit is judged."""
PAINT_TARGET_S, ATTENTION_TARGET_S = 1.0, 5.0
MILESTONES = {
    "painted": ("first paint", PAINT_TARGET_S),
    "traced": ("first attention shown", ATTENTION_TARGET_S),
}
NAME, MAX_RATIO = "opening 1.4 GB of weights / transformers' own way", 1.5
SHAPE = {"n_pieces": 50_257, "d_model": 1024, "n_layers": 24}
"""GPT-2 medium's (Radford et al. 2019)."""

BERT_NAME, MAX_BERT_S = "attnscope figure of a folder of BERT-base's size", 7.5
"""Half of the 15 s that version 0.7.0 took on two cores."""
BERT_BASE = {"n_pieces": 30_522, "d_model": 768, "n_layers": 12}
"""Devlin et al. 2019."""

PAGES, MAX_PAGE_RATIO = ("--version", "--help", "figure --help"), 8.0
DEMO, MAX_INFO_RATIO, MAX_FIGURE_RATIO = "grammar", 1.15, 1.6
READING = "import sys, torch; open(sys.argv[1], 'rb').read()"


def measure_start(n_runs: int = N_RUNS) -> Iterator[Measurement]:
    """Median seconds from the start of the process to each milestone, as of an installed program.

    The first run is left out: it warms the disk, and compiles modules where none are kept compiled.
    """
    seconds: dict[str, list[float]] = {name: [] for name in MILESTONES}
    with tempfile.TemporaryDirectory(prefix="attnscope-bench-") as compiled:
        start_once(compiled)
        for _ in range(n_runs):
            for name, value in start_once(compiled).items():
                seconds[name].append(value)
            if all(is_clear(seconds[name], target) for name, (_, target) in MILESTONES.items()):
                break
    for name, (label, target) in MILESTONES.items():
        yield median_of(f"start to {label} (median)", seconds[name], "s", target=target)


def start_once(compiled: str) -> dict[str, float]:
    """Seconds from before the process existed to each milestone of one smoke run; see `told_by`."""
    begin_s = time.time()
    seen = told_by("attnscope", "--smoke", "--json", has_window=True, compiled=compiled)
    if not seen["ok"]:
        raise UserError(f"The program did not start well: {seen['sentence']}")
    return {name: seen["started_at_s"] + seen[f"{name}_s"] - begin_s for name in MILESTONES}


def measure_commands(n_runs: int = N_RUNS, n_page_runs: int = N_PAGE_RUNS) -> Iterator[Row]:
    """Whole processes of the command line, each in turns with the process that it cannot be faster than."""
    with tempfile.TemporaryDirectory(prefix="attnscope-commands-") as made:
        bare = [sys.executable, "-c", "pass"]
        pages = {words: (words.split(), MAX_PAGE_RATIO) for words in PAGES}
        yield from _beside("python -c pass", bare, pages, made, n_page_runs)
        file = resources_folder() / "models" / DEMO / "model.safetensors"
        torch = [sys.executable, "-c", READING, str(file)]
        drawn = ["figure", DEMO, "--text", "the white cat sleeps", "-o", str(Path(made) / "figure.svg")]
        works = {
            f"info {DEMO}": (["info", DEMO], MAX_INFO_RATIO),
            f"figure {DEMO}": (drawn, MAX_FIGURE_RATIO),
        }
        yield from _beside("import torch, read the file", torch, works, made, n_runs)


def measure_large_figure(n_runs: int = N_RUNS) -> Iterator[Row]:
    """Seconds of the command that draws every head of an encoder of that format: whole processes."""
    if importlib.util.find_spec("transformers") is None:
        yield NotRun(name=BERT_NAME, reason="transformers is not installed")
        return
    from bench.loading import make_encoder_folder

    with tempfile.TemporaryDirectory(prefix="attnscope-figure-") as made:
        folder, drawn = make_encoder_folder(Path(made) / "bert", **BERT_BASE), Path(made) / "figure.svg"
        command = command_of(
            "attnscope", "figure", str(folder), "--text", "the white cat sleeps", "-o", str(drawn)
        )
        variables = prepared(has_window=False)
        seconds: list[float] = []
        while len(seconds) < n_runs and not is_clear(seconds, MAX_BERT_S):
            seconds.append(_process_s(command, variables))
    yield median_of(BERT_NAME, seconds, "s", target=MAX_BERT_S, note="a whole process, 144 heads, SVG")


def _beside(
    what: str, limit: list[str], commands: Mapping[str, tuple[list[str], float]], compiled: str, n_runs: int
) -> Iterator[Measurement]:
    """Commands against the process that limits them, in turns, after the last of them, which does most.

    `commands` are the words by the name of the row, and how many times as long they may take.
    """
    variables = prepared(has_window=False)
    if sys.dont_write_bytecode:
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        variables["PYTHONPYCACHEPREFIX"] = compiled
    ways = [command_of("attnscope", *words) for words, _ in commands.values()]
    ratios: list[list[float]] = [[] for _ in commands]
    ours_s: list[list[float]] = [[] for _ in commands]
    _process_s(ways[-1], variables)
    for _ in range(n_runs):
        *seconds, least_s = [_process_s(way, variables) for way in (*ways, limit)]
        for own, found, of_limit in zip(ours_s, seconds, ratios, strict=True):
            own.append(found)
            of_limit.append(found / least_s)
        if all(is_clear(found, most) for found, (_, most) in zip(ratios, commands.values(), strict=True)):
            break
    for (name, (_, most)), of_limit, own in zip(commands.items(), ratios, ours_s, strict=True):
        note = f"ours {percentile(own, 50):.2f} s"
        yield median_of(f"attnscope {name} / {what}", of_limit, "×", target=most, note=note)


def _process_s(command: list[str], variables: Mapping[str, str]) -> float:
    """Seconds of a whole process; raises UserError when it failed."""
    begin_s = time.perf_counter()
    done = subprocess.run(command, env=variables, capture_output=True, check=False, timeout=120)
    seconds = time.perf_counter() - begin_s
    if done.returncode != 0:
        raise UserError(f"{' '.join(command[-3:])} failed: {done.stderr.decode(errors='replace')[-200:]}")
    return seconds


def measure_opening(n_runs: int = N_RUNS) -> Iterator[Row]:
    """Whole processes in turns; both find in memory the file that was just written."""
    if importlib.util.find_spec("transformers") is None:
        yield NotRun(name=NAME, reason="transformers is not installed")
        return
    from bench.loading import make_folder  # a window comes along, which no child needs

    ratios: list[float] = []
    own_s: list[float] = []
    with tempfile.TemporaryDirectory(prefix="attnscope-opening-") as made:
        folder = make_folder(Path(made) / "model", **SHAPE)
        while len(ratios) < n_runs and not is_clear(ratios, MAX_RATIO):
            seconds = {way: _run_s(way, folder) for way in ("library", "attnscope")}
            ratios.append(seconds["attnscope"] / seconds["library"])
            own_s.append(seconds["attnscope"])
    note = f"whole processes, to the first pass; ours {percentile(own_s, 50):.1f} s"
    yield median_of(NAME, ratios, "×", target=MAX_RATIO, note=note)


def _run_s(way: str, folder: Path) -> float:
    begin_s = time.perf_counter()
    told_by("bench.start", way, str(folder))
    return time.perf_counter() - begin_s


def main() -> None:
    """Open the model one way and read a text with it; one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=("library", "attnscope"))
    parser.add_argument("folder")
    arguments = parser.parse_args()
    if arguments.way == "attnscope":
        from attnscope.models import load

        load(arguments.folder, device="cpu").predict("a b c", n_continue=0)
    else:
        _read_by_library(arguments.folder)
    print(json.dumps({"is_read": True}))


def _read_by_library(folder: str) -> None:
    import torch

    library: Any = importlib.import_module("transformers")
    model = library.AutoModelForCausalLM.from_pretrained(folder)
    words = library.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        model(**words("a b c", return_tensors="pt"))


if __name__ == "__main__":
    main()
