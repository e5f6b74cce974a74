"""What cannot be asked of recorded attention, because only a model has it. No Qt."""

from attnscope.models import Model
from attnscope.records.causes import AttributeOutput, PatchTexts
from attnscope.records.corpora import OWN_TEXTS, MeasureHeads
from attnscope.records.generation import WriteText
from attnscope.records.head_weights import ShowWeights
from attnscope.records.inside import ShowInside
from attnscope.records.lens import ShowLens
from attnscope.records.messages import Request, SaveModel, ShowPositions
from attnscope.records.pruning import SavePruned, TryPruning
from attnscope.records.pruning_runs import MeasureCurves
from attnscope.records.recorded import needs_model
from attnscope.records.redundancy import CompareHeads
from attnscope.records.splits import ReplaySplits
from attnscope.records.vocabulary import FindPieces, ShowPiece, ShowVocabulary, SpellText

_ALWAYS: dict[type, str] = {
    AttributeOutput: "Adding up causes",
    FindPieces: "A vocabulary",
    MeasureCurves: "Pruning",
    PatchTexts: "Patching",
    SaveModel: "Saving",
    SavePruned: "Pruning",
    ShowInside: "Looking inside a head",
    ShowLens: "The lens",
    ShowPiece: "A vocabulary",
    ShowVocabulary: "A vocabulary",
    ShowWeights: "Reading a head's weights",
    SpellText: "A vocabulary",
    TryPruning: "Pruning",
    WriteText: "Writing",
}


def require_model(request: Request, model: Model | None) -> None:
    """Raise UserError when `model` is recorded attention and the request is for what only a model can do."""
    if model is None or not model.info.is_recorded:
        return
    what = _ALWAYS.get(type(request), "")
    match request:
        case MeasureHeads() if request.path != OWN_TEXTS:
            what = "Measuring over other texts"
        case CompareHeads() if request.source != "shown":
            what = "Comparing heads over other texts"
        case ShowPositions() if "model" in request.names:
            what = "Its positional encoding"
        case ReplaySplits() if request.source == "model":
            what = "Its tokenizer"
        case _:
            pass
    if what:
        raise needs_model(model.info.name, what)


def running(model: Model) -> Model:
    """The model, for an experiment with it; raises UserError for recorded attention."""
    if model.info.is_recorded:
        raise needs_model(model.info.name, "This experiment")
    return model
