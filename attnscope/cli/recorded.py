"""Files of recorded attention in the place of a model and a text."""

import argparse
import dataclasses
from typing import TYPE_CHECKING

from attnscope.cli.terminal import say, say_error, say_json
from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.records.models import needs_model

if TYPE_CHECKING:
    from attnscope.models import Model
    from attnscope.trace import Trace


def take_recorded(arguments: argparse.Namespace, model: "Model") -> "Trace":
    """The trace of a recording, its text put where the given one would be; raises UserError for another."""
    trace, (sample,) = recorded_trace(model), model.info.samples
    path = getattr(arguments, "file", None)
    if path is not None or getattr(arguments, "view", "") == "picture":
        raise needs_model(model.info.name, "-f" if path is not None else "A picture")
    for name in ("gate", "mask", "mask_rows"):
        if getattr(arguments, name, None):
            raise needs_model(model.info.name, f"--{name.replace('_', '-')}")
    model.encode(arguments.text or "", arguments.target)  # refuses another text
    arguments.text, arguments.target = sample.text, sample.target
    return trace


def tell_recorded_notes(model: "Model") -> None:
    """Say on standard error what belongs to the numbers of a recording, above all sums that are not 1."""
    trace = recorded_trace(model)
    if trace.recorded is not None:
        for note in trace.recorded.notes:
            say_error(f"attnscope: {note}")
    check = trace.check()
    if not check.is_good:
        say_error(f"attnscope: {model.info.name}: {check.sentence}")


def recorded_trace(model: "Model") -> "Trace":
    from attnscope.models.recording.network import RecordedNetwork

    if not isinstance(model.network, RecordedNetwork):
        raise UserError(f"{model.info.name} is a model.", expected="recorded attention")
    return model.network.trace


def tell_recorded(arguments: argparse.Namespace) -> int:
    """What `info` says of a recording: its text, its sites with the modules they were, its check."""
    from attnscope.models.recording.opening import open_recording

    model = open_recording(arguments.model)
    trace, info = recorded_trace(model), model.info
    names = {} if trace.recorded is None else dict(trace.recorded.site_names)
    notes = () if trace.recorded is None else trace.recorded.notes
    if arguments.json:
        sites = [{**dataclasses.asdict(site), "module": names.get(site.key, "")} for site in trace.sites]
        about = {"name": info.name, "sha256": info.sha256, "sites": sites, "notes": notes}
        check = dataclasses.asdict(trace.check())
        say_json({**about, "text": info.samples[0].text, "target": info.samples[0].target, "check": check})
        return 0
    n_source = len(trace.source)
    read = plural(n_source, "token")
    if trace.target is not None:
        read = f"{n_source:,} and {plural(len(trace.target), 'token')}"
    say(f"{info.name}: recorded attention, {read}; {trace.check().sentence}")
    for site in trace.sites:
        heads = plural(site.n_heads, "head")
        say(f"  {site.stack} L{site.layer}  {heads}  {names.get(site.key, '')}".rstrip())
    for note in notes:
        say(f"  {note}")
    return 0
