"""AttnScope: see every attention head of a Transformer, train, prune, compare and export.

    import attnscope as at

    model = at.load("grammar")
    trace = model.trace("the white cat sleeps")
    trace.weights("cross:L1H0")                  # float32 [n_queries, n_keys]
    at.figure(trace).save("heads.svg")           # all heads; in a notebook, an interactive page

    gates = model.gates()
    gates["cross:L1H0"] = 0.0                    # without one head
    model.compare("the white cat sleeps", gates=gates).after.generated

    with at.record(module) as recording:         # any module of PyTorch
        module(x)
    at.figure(recording.trace(), view="lines", heads=["L0H0", "L0H1"])

Models and traces:
    load              a model: a demo's name, a folder, or one of the Hugging Face format
    demo_models       the names of the models that come with the program
    Model             one model: its traces, predictions, generated texts, pruning
    Trace             every attention head of one model on one text
    record            records the attention of any module in a block
    Recording         the recorded attention, and its trace
    from_arrays       a trace of given attention weights
    load_trace        read a trace from a file
    save_trace        write a trace to a file
    picture           a picture as a vision model sees it

Numbers:
    measure           the measures of every head on one text
    measure_texts     the measures of every head over many texts, with intervals
    Findings          the result of measure_texts
    importance        the importance of every head
    pruning_curve     a metric as heads are removed, least important first
    ask               the answer to one question about a model and a text

Figures:
    figure            the grid of all heads, one head, lines of several, panels, a difference
    Figure            its result: to save, to show, to draw on axes of matplotlib
    panels            several figures on one page
    inside_figure     one head step by step, from query and keys to its output
    graph_figure      attention as a graph from one output down to the inputs
    positions_figure  positional encodings side by side
    curves_figure     the curves of training runs
    scaling_figure    loss against parameters, data and compute, with its power law
    lab               the picture of a small experiment with attention
    load_figure       the figure of a figure file
    handout           the kept views of a session as a PDF
    Caption           the caption below a figure
    FigureOrigin      the model and text that a figure file reads again

Heads and interventions:
    HeadRef           one head: stack, layer, head
    Site              one attention module: stack, layer, number of heads
    Gates             multipliers of head outputs: 0 removes a head
    GateTable         the same as a writable table, from model.gates()
    MakeMean          replaces a head's outputs by their mean
    MakeUniform       makes a head's weights equal
    RemoveEdge        hides one key from one query
    CopyPattern       gives a head its weights on another text
    UseMask           runs a stack under another mask
    WriteSettings     how the next token is chosen

Training:
    train             train a recipe into a run folder

Errors:
    UserError         an error you can correct: what happened, what was expected, what to do
    LoadError         a file or folder that cannot be opened
    SaveError         a file that could not be written

Everything is imported on first use, so that `import attnscope` is instant. Every argument is in
`help(attnscope.Model)`, say, and in the page *Python reference* of the help (Ctrl+F1 in the window).
"""

import sys
from typing import TYPE_CHECKING

from attnscope.doors import door_of

if TYPE_CHECKING:
    from types import FrameType

    from attnscope.analysis.corpus import measure_texts as measure_texts
    from attnscope.analysis.importance import importance as importance
    from attnscope.analysis.importance import pruning_curve as pruning_curve
    from attnscope.analysis.measures import measure as measure
    from attnscope.drawing import ask as ask
    from attnscope.drawing import curves_figure as curves_figure
    from attnscope.drawing import graph_figure as graph_figure
    from attnscope.drawing import handout as handout
    from attnscope.drawing import inside_figure as inside_figure
    from attnscope.drawing import load_figure as load_figure
    from attnscope.drawing import positions_figure as positions_figure
    from attnscope.drawing import scaling_figure as scaling_figure
    from attnscope.errors import LoadError as LoadError
    from attnscope.errors import SaveError as SaveError
    from attnscope.errors import UserError as UserError
    from attnscope.figures.figure import Figure as Figure
    from attnscope.figures.figure import figure as figure
    from attnscope.figures.figure import panels as panels
    from attnscope.figures.spec import Caption as Caption
    from attnscope.figures.spec import FigureOrigin as FigureOrigin
    from attnscope.lab_drawing import lab as lab
    from attnscope.models.inputs import picture as picture
    from attnscope.models.model import Model as Model
    from attnscope.models.opening import demo_models as demo_models
    from attnscope.models.opening import load as load
    from attnscope.models.recording.arrays import from_arrays as from_arrays
    from attnscope.models.recording.recording import Recording as Recording
    from attnscope.models.recording.recording import record as record
    from attnscope.records.findings import Findings as Findings
    from attnscope.records.interventions import CopyPattern as CopyPattern
    from attnscope.records.interventions import MakeMean as MakeMean
    from attnscope.records.interventions import MakeUniform as MakeUniform
    from attnscope.records.interventions import RemoveEdge as RemoveEdge
    from attnscope.records.interventions import UseMask as UseMask
    from attnscope.records.outputs import WriteSettings as WriteSettings
    from attnscope.records.sites import Gates as Gates
    from attnscope.records.sites import GateTable as GateTable
    from attnscope.records.sites import HeadRef as HeadRef
    from attnscope.records.sites import Site as Site
    from attnscope.trace.trace import Trace as Trace
    from attnscope.trace.trace import load_trace as load_trace
    from attnscope.trace.trace import save_trace as save_trace
    from attnscope.training import train as train
else:
    __getattr__, _ = door_of(__name__)

__version__ = "0.29.0"
__all__ = [
    "Caption",
    "CopyPattern",
    "Figure",
    "FigureOrigin",
    "Findings",
    "GateTable",
    "Gates",
    "HeadRef",
    "LoadError",
    "MakeMean",
    "MakeUniform",
    "Model",
    "Recording",
    "RemoveEdge",
    "SaveError",
    "Site",
    "Trace",
    "UseMask",
    "UserError",
    "WriteSettings",
    "__version__",
    "ask",
    "curves_figure",
    "demo_models",
    "figure",
    "from_arrays",
    "graph_figure",
    "handout",
    "importance",
    "inside_figure",
    "lab",
    "load",
    "load_figure",
    "load_trace",
    "measure",
    "measure_texts",
    "panels",
    "picture",
    "positions_figure",
    "pruning_curve",
    "record",
    "save_trace",
    "scaling_figure",
    "train",
]


def __dir__() -> list[str]:
    """The public names.

    Python's `help` would add every member of every class, 1,800 lines, to the page above, which names them
    all: to it there is only the version. `help(attnscope.Model)` has the rest.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") == "inspect":
        frame = frame.f_back
    is_help = frame is not None and frame.f_code.co_name == "docmodule"  # of pydoc
    return ["__version__"] if is_help else [*__all__]
