"""AttnScope: see every attention head of a Transformer, train, prune, compare and export.

The public Python API, imported on first use so that `import attnscope` stays instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnscope.analysis.importance import importance as importance
    from attnscope.analysis.measures import measure as measure
    from attnscope.analysis.measuring import measure_texts as measure_texts
    from attnscope.analysis.pruning_curve import pruning_curve as pruning_curve
    from attnscope.asking import ask as ask
    from attnscope.drawing import curves_figure as curves_figure
    from attnscope.drawing import graph_figure as graph_figure
    from attnscope.drawing import load_figure as load_figure
    from attnscope.drawing import positions_figure as positions_figure
    from attnscope.drawing import scaling_figure as scaling_figure
    from attnscope.figures.composing import panels as panels
    from attnscope.figures.figure import figure as figure
    from attnscope.figures.spec import Caption as Caption
    from attnscope.figures.spec import FigureOrigin as FigureOrigin
    from attnscope.lab_drawing import lab as lab
    from attnscope.models.model import Model as Model
    from attnscope.models.opening import load as load
    from attnscope.models.pictures import picture as picture
    from attnscope.models.recording.arrays import from_arrays as from_arrays
    from attnscope.models.recording.recording import Recording as Recording
    from attnscope.models.recording.recording import record as record
    from attnscope.models.sources import demo_models as demo_models
    from attnscope.records.generation import WriteSettings as WriteSettings
    from attnscope.records.interventions import CopyPattern as CopyPattern
    from attnscope.records.interventions import MakeMean as MakeMean
    from attnscope.records.interventions import MakeUniform as MakeUniform
    from attnscope.records.interventions import RemoveEdge as RemoveEdge
    from attnscope.records.masks import UseMask as UseMask
    from attnscope.records.sites import Gates as Gates
    from attnscope.records.sites import HeadRef as HeadRef
    from attnscope.records.sites import Site as Site
    from attnscope.trace.trace import Trace as Trace
    from attnscope.trace.trace import load_trace as load_trace
    from attnscope.trace.trace import save_trace as save_trace
    from attnscope.training import train as train

__version__ = "0.13.0"

_HOMES = {
    "Caption": "attnscope.figures.spec",
    "CopyPattern": "attnscope.records.interventions",
    "FigureOrigin": "attnscope.figures.spec",
    "Gates": "attnscope.records.sites",
    "HeadRef": "attnscope.records.sites",
    "MakeMean": "attnscope.records.interventions",
    "MakeUniform": "attnscope.records.interventions",
    "Model": "attnscope.models.model",
    "Recording": "attnscope.models.recording.recording",
    "RemoveEdge": "attnscope.records.interventions",
    "Site": "attnscope.records.sites",
    "Trace": "attnscope.trace.trace",
    "UseMask": "attnscope.records.masks",
    "WriteSettings": "attnscope.records.generation",
    "ask": "attnscope.asking",
    "curves_figure": "attnscope.drawing",
    "demo_models": "attnscope.models.sources",
    "figure": "attnscope.figures.figure",
    "from_arrays": "attnscope.models.recording.arrays",
    "importance": "attnscope.analysis.importance",
    "lab": "attnscope.lab_drawing",
    "load": "attnscope.models.opening",
    "load_figure": "attnscope.drawing",
    "load_trace": "attnscope.trace.trace",
    "measure": "attnscope.analysis.measures",
    "measure_texts": "attnscope.analysis.measuring",
    "panels": "attnscope.figures.composing",
    "picture": "attnscope.models.pictures",
    "graph_figure": "attnscope.drawing",
    "positions_figure": "attnscope.drawing",
    "pruning_curve": "attnscope.analysis.pruning_curve",
    "record": "attnscope.models.recording.recording",
    "save_trace": "attnscope.trace.trace",
    "scaling_figure": "attnscope.drawing",
    "train": "attnscope.training",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'attnscope' has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The public names."""
    return [*_HOMES, "__version__"]
