"""Opening files of recorded attention, and of traces, as something to look at."""

from pathlib import Path

from attnscope.errors import LoadError
from attnscope.files import sha256_of
from attnscope.hub.shelf import is_model_id
from attnscope.models.model import Model
from attnscope.models.opening import load
from attnscope.models.recording.network import RecordedNetwork
from attnscope.records.shelf import is_download, on_this_machine
from attnscope.records.sites import require_heads
from attnscope.trace.store import is_trace_file
from attnscope.trace.trace import load_trace


def open_source(source: str, device: str = "auto") -> Model:
    """A model, or recorded attention in the place of one; raises LoadError and UserError as `load` does."""
    return open_recording(source) if is_trace_file(source) else load(source, device=device)


def open_named(source: str, device: str = "auto") -> Model:
    """As `open_source`, for a source that a file names: nothing is downloaded that no person asked for."""
    name = on_this_machine(source)
    try:
        return open_source(name, device)
    except LoadError as error:
        if not is_download(source):
            raise
        can_be = is_model_id(name)
        raise LoadError(
            f"The file needs the model {name[:100]!r}, which is not on this computer.",
            kind="not-downloaded",
            expected="a model that was opened before: for a file nothing is downloaded",
            action=f"Run attnscope get {name}, which downloads it, and try again."
            if can_be
            else "It is not the name of a model on the Hub.",
        ) from error


def open_recording(path: str | Path) -> Model:
    """A file of recorded attention, or of a trace, as a model that only shows it; raises LoadError."""
    path = Path(path)
    trace = load_trace(path)
    require_heads(trace.sites)
    if any(site.keys != "tokens" for site in trace.sites):
        raise LoadError(
            f"{path} is a trace whose columns are not tokens.",
            kind="not-a-recording",
            expected="a recording, or a trace of tokens on tokens",
            action="Open the model that it was traced with.",
        )
    network = RecordedNetwork(trace, source=str(path.absolute()), sha256=sha256_of(path))
    return Model(network)
