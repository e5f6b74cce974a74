"""A program of a user who names every public name; type checkers read it, nobody runs it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

import attnscope as at


def look(name: str, text: str) -> at.Trace:
    model: at.Model = at.load(name if name in at.demo_models() else at.demo_models()[0])
    trace: at.Trace = model.trace(text)
    weights: NDArray[np.float32] = trace.weights("encoder:L0H0")
    at.save_trace("a.safetensors", trace)
    print(weights.shape, at.load_trace("a.safetensors"), at.__version__)
    return trace


def count(model: at.Model, trace: at.Trace, texts: list[str]) -> float:
    found: at.Findings = at.measure_texts(model, texts)
    found.save_csv("heads.csv")
    rows: list[dict[str, object]] = found.rows()
    heads = at.measure(trace)
    told: dict[str, object] = heads[0].to_dict()
    scores = at.importance(model, texts)
    curve = at.pruning_curve(model, texts, metric="loss")
    columns: dict[str, list[object]] = scores.to_dict() | curve.to_dict()
    answer = at.ask("residual-stream", model, texts[0])
    print(answer.sentence, answer.tables[0].to_dict(), rows, told, columns)
    return heads[0].entropy + scores.scores[0].value + curve.points[0].value


def draw(model: at.Model, trace: at.Trace, folder: Path) -> list[Path]:
    caption = at.Caption(model=model.info.name, note="ours")
    origin = at.FigureOrigin(source="grammar", text="the cat sleeps")
    one: at.Figure = at.figure(trace, view="head", head="L0H0", caption=caption, origin=origin)
    many = [
        one,
        at.panels([one, at.figure(trace, "lines", heads=["L0H0", ("encoder", 0, 1)])], titles=["a", "b"]),
        at.graph_figure(trace),
        at.inside_figure(model, "the cat sleeps", "L0H0", 1, step="product"),
        at.positions_figure(encodings=("rotary",), n_positions=64, d_model=32),
        at.curves_figure(folder),
        at.scaling_figure(folder),
        at.lab("Scaling by √d", d_k=64),
        at.load_figure(folder / "a.figure.json"),
        one.on_picture(at.picture(model, "photo.png")),
    ]
    one.to_matplotlib()
    pages = at.handout(folder / "lesson.attnscope", folder / "lesson.pdf")
    return [pages, *(figure.save(folder / f"{number}.svg") for number, figure in enumerate(many))]


def change(model: at.Model, trace: at.Trace, text: str) -> str:
    site: at.Site = trace.sites[0]
    head = at.HeadRef(stack=site.stack, layer=site.layer, head=0)
    table: at.GateTable = model.gates()
    table["encoder", 0, 0] = 0.0
    gates: at.Gates = at.Gates.of({head: 0.5})
    changes = (
        at.MakeMean(head=head),
        at.MakeUniform(head=head),
        at.RemoveEdge(head=head, query=0, key=0),
        at.CopyPattern(head=head, from_head=head, text=text),
    )
    mask = at.UseMask(stack="encoder", n_tokens=2, bits=b"\xff")
    model.compare(text, gates=gates, interventions=(*changes, mask))
    written = model.write(text, at.WriteSettings(mode="sample", temperature=0.7), table)
    return str(model.compare(text, gates=table).after.generated) + str(written.text)


def record(module: torch.nn.Module, inputs: torch.Tensor) -> at.Trace | None:
    with at.record(module) as recording:
        module(inputs)
    kept: at.Recording = recording
    try:
        return kept.trace(["a", "b"])
    except at.UserError as error:
        print(error.happened, error.expected, error.action)
    return at.from_arrays(np.ones((1, 1, 2, 2), np.float32) / 2, ["a", "b"])


def train(tell: Callable[[object], None]) -> None:
    try:
        for event in at.train("reverse", out="runs/reverse", overrides={"training.n_steps": "20"}):
            tell(event)
    except (at.LoadError, at.SaveError) as error:
        tell(error)
