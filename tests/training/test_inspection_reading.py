"""Inspections as they grow: only what is new is read, cut to display size, through the engine too."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import numpy as np

from attnscope.records import UPDATE_BINS, Inspection, InspectionsShown, ShowInspections
from attnscope.training import INSPECTIONS, MOST_STEPS, InspectionsReader, history_of
from attnscope.workers import Engine


def look(step: int, layers: tuple[str, ...] = ("tokens", "head")) -> Inspection:
    counts = [0] * (len(UPDATE_BINS) - 1)
    counts[step % 10] = step
    return Inspection(
        step=step,
        learning_rate=1e-3 / step,
        layers=layers,
        gradient_norms=tuple(float(step + k) for k in range(len(layers))),
        update_norms=(0.5,) * len(layers),
        update_counts=tuple(counts),
        n_still=3,
    )


def write(folder: Path, *looks: Inspection, mode: str = "a") -> None:
    with (folder / INSPECTIONS).open(mode) as stream:
        stream.writelines(json.dumps(asdict(found)) + "\n" for found in looks)


def read(reader: InspectionsReader, folder: Path) -> list[float]:
    for _ in reader.read(folder):
        pass
    history = reader.history()
    return [] if history is None else history.steps.tolist()


def test_that_only_what_was_appended_is_read_again_and_half_a_line_waits(tmp_path: Path) -> None:
    reader = InspectionsReader()
    assert read(reader, tmp_path) == []
    assert reader.version == 0
    write(tmp_path, look(1), look(2))
    whole = json.dumps(asdict(look(3))) + "\n"
    with (tmp_path / INSPECTIONS).open("a") as stream:
        stream.write(whole[:40])
    assert read(reader, tmp_path) == [1, 2]
    with (tmp_path / INSPECTIONS).open("a") as stream:
        stream.write(whole[40:])
    assert read(reader, tmp_path) == [1, 2, 3]
    assert reader.version == os.path.getsize(tmp_path / INSPECTIONS)


def test_that_a_resumed_run_counts_by_its_later_looks_and_a_replaced_file_begins_anew(tmp_path: Path) -> None:
    reader = InspectionsReader()
    write(tmp_path, look(1), look(2), look(3), look(2))
    assert read(reader, tmp_path) == [1, 2]
    write(tmp_path, look(7), mode="w")
    assert read(reader, tmp_path) == [7]
    (tmp_path / INSPECTIONS).unlink()
    assert read(reader, tmp_path) == []


def test_that_a_long_history_is_cut_evenly_and_keeps_its_ends_and_true_values() -> None:
    looks = [look(step) for step in range(1, 2002)]
    history = history_of(looks)
    assert history is not None
    assert len(history.steps) == MOST_STEPS
    assert (history.steps[0], history.steps[-1], history.n_steps_seen) == (1, 2001, 2001)
    i = 123
    step = int(history.steps[i])
    assert history.gradient_norms[:, i].tolist() == [step, step + 1]
    assert history.update_counts[step % 10, i] == step
    assert np.diff(history.steps).max() - np.diff(history.steps).min() <= 1


def test_that_a_layer_not_in_training_at_a_step_has_no_number_there() -> None:
    history = history_of([look(1, ("head",)), look(2, ("tokens", "head"))])
    assert history is not None
    assert history.layers == ("head", "tokens")
    np.testing.assert_array_equal(history.gradient_norms, [[1.0, 3.0], [np.nan, 2.0]])


def test_that_the_engine_tells_a_history_once_and_then_only_what_is_new(tmp_path: Path) -> None:
    engine = Engine(write_crash=lambda error, what: None)

    def ask(seen: int) -> InspectionsShown:
        request = ShowInspections(number=5, folder=str(tmp_path), seen=seen)
        reply = list(engine.handle(request))[-1]
        assert isinstance(reply, InspectionsShown)
        return reply

    assert (ask(0).version, ask(0).history) == (0, None)
    write(tmp_path, look(1))
    first = ask(0)
    assert first.history is not None
    assert ask(first.version).history is None
    write(tmp_path, look(2))
    again = ask(first.version)
    assert again.history is not None
    assert again.history.steps.tolist() == [1, 2]
