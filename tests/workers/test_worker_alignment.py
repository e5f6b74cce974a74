"""The engine's answer to ShowAlignment, and links in the pass over texts."""

from pathlib import Path

from worker_tools import ask, save_tiny, train_to_end

from attnscope.records import (
    AlignmentShown,
    Failed,
    GoldFiles,
    HeadsMeasured,
    LoadModel,
    MeasureHeads,
    ShowAlignment,
    TraceText,
)
from attnscope.workers import Engine

PAIRS = "the cat sat\tle chat est\na dog\tle chat\n"


def written(folder: Path) -> GoldFiles:
    (folder / "p.tsv").write_text(PAIRS, encoding="utf-8")
    (folder / "l.txt").write_text("0-0 1-1 2p2\n0-0\n", encoding="utf-8")
    return GoldFiles(pairs=str(folder / "p.tsv"), links=str(folder / "l.txt"))


def test_that_links_are_compared_with_the_newest_trace(engine: Engine, tmp_path: Path) -> None:
    files = written(tmp_path)
    ask(engine, LoadModel(number=1, source=save_tiny(tmp_path / "m", "encoder-decoder"), device="cpu"))
    (none,) = ask(engine, ShowAlignment(number=2, trace=1, files=files))
    assert isinstance(none, AlignmentShown)
    assert none.note == "the text has changed meanwhile"
    ask(engine, TraceText(number=3, text="the cat sat", target="le chat est"))
    (old,) = ask(engine, ShowAlignment(number=4, trace=1, files=files))
    assert isinstance(old, AlignmentShown)
    assert (old.note, old.trace) == ("the text has changed meanwhile", 1)
    (shown,) = ask(engine, ShowAlignment(number=4, trace=3, files=files))
    assert isinstance(shown, AlignmentShown)
    assert shown.trace == 3
    assert shown.table is not None
    assert (len(shown.table.heads), len(shown.cells)) == (4, 3)
    nowhere = GoldFiles(pairs="/nowhere", links=files.links)
    (failed,) = ask(engine, ShowAlignment(number=5, trace=3, files=nowhere))
    assert isinstance(failed, Failed)
    assert "/nowhere" in failed.message


def test_that_a_measuring_pass_with_links_ends_with_alignment(engine: Engine, tmp_path: Path) -> None:
    files = written(tmp_path)
    ask(engine, LoadModel(number=1, source=save_tiny(tmp_path / "m", "encoder-decoder"), device="cpu"))
    ask(engine, MeasureHeads(number=2, path=files.pairs, links=files.links))
    done = [reply for reply in train_to_end(engine) if isinstance(reply, HeadsMeasured)]
    assert done[0].found.alignment is not None
    assert done[0].found.alignment.n_texts == 2
