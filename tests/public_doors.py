"""Public doors and what comes out of them: the command line's JSON and files, and Python's arrays.

What a door gives is kept in `public_numbers.json` and compared by `shell/test_public_numbers.py`, so that a
change of shape, which should change no number, is held against the numbers of before. A door that is added
or changed on purpose is written anew:

    python -m pytest tests/shell/test_public_numbers.py --update-numbers
"""

import contextlib
import csv
import dataclasses
import io
import json
import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from public_models import MEASURES_KEPT, VARIANTS, second_of, variant, write_folder
from ramp_fixtures import ramp_of
from tiny_models import FRENCH, SENTENCE

import attnscope as at
from attnscope.cli.main import main
from attnscope.schemes.measures import MEASURES
from attnscope.text import train_tokenizer

DIGITS = 6
"""Significant digits that are kept."""
RELATIVE, OF_LARGEST, LEAST = 5e-5, 2e-5, 1e-9
"""How far a number may be off: so much of itself, of the largest in its list, and in any case. The kernels of
old processors, of AVX2 and of AVX-512, with oneDNN and without, differ by less than a third of that."""

_UNSTEADY = {
    "source",
    "device",
    "sha256",
    "tokens_per_s",
    "row_sum_error",
    "output_error",
    "files",
    "version",
}
"""Keys of what belongs to a machine, a version or a moment."""
_PROSE = {
    "about", "formula", "hint", "statement", "what_it_does", "note", "reads", "samples", "sentence",
    "architecture_table",
}  # fmt: skip
"""Keys of what may be worded better without a number being another."""
_ADDED = {f"{name}{end}" for name in {*MEASURES} - {*MEASURES_KEPT} for end in ("", "_error")}
"""Keys of measures that came later."""

_TEXTS = ("the cat sat on the mat", "a dog saw the bird", "the bird sat on a mat", "a cat saw the cat")
_SECONDS = ("le chat est sur le tapis", "le chat", "le tapis est sur le chat", "est le chat sur")
_LINKS = ("0-0 1-1 2-2 3-3 4-4 5-5", "3-0 4-1", "0-0 1-1 2p2 3-3", "2-0 1-2")
_TREES = """# text = a dog saw the bird
1\ta\ta\tDET\t_\t_\t2\tdet\t_\t_
2\tdog\tdog\tNOUN\t_\t_\t3\tnsubj\t_\t_
3\tsaw\tsee\tVERB\t_\t_\t0\troot\t_\t_
4\tthe\tthe\tDET\t_\t_\t5\tdet\t_\t_
5\tbird\tbird\tNOUN\t_\t_\t3\tobj\t_\t_

"""
_GRAMMAR = '--text "the white cat sleeps"'
_CAT = f'--text "{SENTENCE}"'
_BOTH = f'{_CAT} --target "{FRENCH}"'

_OF_GRAMMAR = (
    "info grammar --json",
    f"measure grammar {_GRAMMAR} --json",
    f"predict grammar {_GRAMMAR} --json",
    f"predict grammar {_GRAMMAR} --gate cross:L1H0=0 --gate encoder:L0H1=0.5 --json",
    f"lens grammar {_GRAMMAR} --top 2 --json",
    f"rollout grammar {_GRAMMAR} --json",
    f"rollout grammar {_GRAMMAR} --position -1 --gate encoder:L0H0=0 --json",
    f"flow grammar {_GRAMMAR} --position 2 --json",
    f"relevance grammar {_GRAMMAR} --position 2 --json",
    f"attribute grammar {_GRAMMAR} --position 2 --json",
    'patch grammar --clean "the white cat sleeps" --corrupt "the black dog sleeps" --json',
    'patch grammar --clean "the white cat sleeps" --corrupt "the black dog sleeps" --kind head --json',
    "weights grammar cross:L1H0 --top 3 --json",
    f"generate grammar {_GRAMMAR} --beams 3 --json",
    f"translate grammar {_GRAMMAR} --json",
    "importance grammar --task english-french --max-texts 6 --json",
    "curve grammar --task english-french --max-texts 4 --step 0.5 --once --rankings gradient --json",
    f"figure grammar {_GRAMMAR} --view head --stack cross --layer 1 --head 0 -o OUT.csv",
    "figure grammar --view positions --encodings sinusoidal,rotary -o OUT.csv",
)
_OF_FORMS = (
    f"measure MODEL {_CAT} --json",
    f"predict MODEL {_CAT} --top 3 --json",
    f"predict MODEL {_CAT} --top 3 --gate STACK:L1H0=0.5 --json",
    f'predict MODEL {_CAT} --top 3 --mask-rows "ROWS" --json',
    f"lens MODEL {_CAT} --top 2 --json",
    f"rollout MODEL {_CAT} --position 3 --json",
    f"flow MODEL {_CAT} --position 3 --json",
    f"relevance MODEL {_CAT} --position 3 --json",
    f"attribute MODEL {_CAT} --position 3 --json",
    f'patch MODEL --clean "{SENTENCE}" --corrupt "the dog sat on the mat" --position 4 --json',
    f'patch MODEL --clean "{SENTENCE}" --corrupt "the dog sat on the mat" --position 4 --kind head --json',
    "weights MODEL STACK:L1H0 --top 3 --json",
    "importance MODEL --corpus TEXTS --json",
    "importance MODEL --corpus TEXTS --normalise --ranking leave-one-out --json",
    "curve MODEL --corpus TEXTS --step 0.5 --rankings gradient,random --seed 3 --json",
    "measure MODEL --corpus TEXTS --json",
    f"figure MODEL {_CAT} --view head --stack STACK --layer 1 --head 1 -o OUT.csv",
)
_OF_ONE = (
    "info --presets --json",
    f"trace {{encoder}} {_CAT} -o OUT.npz",
    *(f"info {{{name}}} --tokens 8 --json" for name in ("decoder", "encoder-decoder", "encoder,as-in-BERT")),
    "measure {encoder} --conllu TREES --json",
    "measure {encoder} --corpus TEXTS --special dropped --json",
    "measure {decoder} --corpus TEXTS --special renormalised --json",
    "measure {encoder-decoder} --corpus TEXTS --links LINKS --json",
    "importance {encoder-decoder} --corpus TEXTS --links LINKS --ranking random --seed 5 --json",
    "curve {encoder-decoder} --corpus TEXTS --links LINKS --metric alignment-error --step 0.5 --json",
    f"lens {{encoder-decoder}} {_BOTH} --position -1 --gate cross:L0H1=0 --json",
    f"attribute {{encoder-decoder}} {_BOTH} --position 2 --answer chat --other tapis --json",
    f"generate {{decoder}} {_CAT} --max-tokens 6 --json",
    f"generate {{decoder}} {_CAT} --max-tokens 5 --beams 2 --length-penalty 0 --json",
    f"generate {{encoder-decoder}} {_CAT} --max-tokens 5 --beams 3 --json",
    "translate {encoder-decoder} -f TEXTS --max-tokens 6 --json",
    'predict {encoder} --text "the cat <mask> on the mat" --top 4 --json',
    "importance {encoder-decoder,body=gru} --corpus TEXTS --json",
    f"figure {{decoder}} {_CAT} --view graph --query 4 -o OUT.csv",
    f"figure {{decoder}} {_CAT} --view grid --hidden special --renormalised -o OUT.csv",
    f"figure {{encoder}} {_CAT} --view head --layer 0 --head 1 --blend mean --over layer -o OUT.csv",
)
FORMS = ("decoder", "encoder", "encoder-decoder")


def _of_form(command: str, form: str) -> str:
    """A command with a form's model, the stack that is looked at, and a mask for its tokens."""
    rows = "0-1;0 2;2;0-3;1 4;5;2-6" + (";0 7" if form == "encoder" else "")
    stack = "cross" if form == "encoder-decoder" else form
    return command.replace("MODEL", f"{{{form}}}").replace("ROWS", rows).replace("STACK", stack)


COMMANDS = (
    *_OF_GRAMMAR,
    *(_of_form(command, form) for form in FORMS for command in _OF_FORMS),
    *_OF_ONE,
)


def told_by(command: str, folder: Path) -> object:
    """What a command says: its JSON, or the numbers of the file that it was asked to write."""
    arguments = [_placed(one, folder) for one in shlex.split(command)]
    needs_device = "--presets" not in arguments
    said, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
        code = main([*arguments, *(["--device", "cpu"] if needs_device else [])])
    if code != 0:
        raise AssertionError(f"`attnscope {command}` ended with {code}: {errors.getvalue().strip()}")
    for path in folder.glob("out.*"):
        found = dict(np.load(path)) if path.suffix == ".npz" else _columns_of(path)
        path.unlink()
        return found
    return json.loads(said.getvalue())


def _placed(argument: str, folder: Path) -> str:
    """An argument with models and files in the place of their names."""
    if argument.startswith("{"):
        return str(write_folder(folder, argument.strip("{}")))
    if argument.startswith("OUT."):
        return str(folder / argument.lower())
    if argument not in ("TEXTS", "LINKS", "TREES"):
        return argument
    path = folder / f"{argument.lower()}.{'conllu' if argument == 'TREES' else 'txt'}"
    pairs = [f"{source}\t{second}" for source, second in zip(_TEXTS, _SECONDS, strict=True)]
    lines = {"TEXTS": "\n".join(pairs), "LINKS": "\n".join(_LINKS), "TREES": _TREES * 20}
    path.write_text(lines[argument] + "\n", encoding="utf-8")
    return str(path)


def _columns_of(path: Path) -> dict[str, list[object]]:
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    return {name: [_read(row[name]) for row in rows] for name in rows[0]}


def _read(cell: str) -> object:
    try:
        return float(cell)
    except ValueError:
        return cell


def maps_of(trace: at.Trace) -> dict[str, object]:
    """The weights of every head, whole."""
    heads = [head for site in trace.sites for head in site.heads]
    return {f"{head.stack} {head.label}": trace.weights(head.site_key, head.head) for head in heads}


def measures_of(trace: at.Trace) -> list[dict[str, object]]:
    """What Python measures of every head."""
    return [dataclasses.asdict(one) for one in at.measure(trace)]


def outputs_of(model: at.Model, name: str, **choices: object) -> dict[str, object]:
    """What the model says, with a change if there is one, and how far that is from the model as it is."""
    found = model.compare(SENTENCE, second_of(name), top=3, n_continue=4, **choices)
    return {
        "kl_nats": found.kl_nats,
        "generated": found.after.generated,
        "pieces": [[one.token.piece for one in p.candidates] for p in found.after.predictions],
        "probabilities": [[one.probability for one in p.candidates] for p in found.after.predictions],
    }


def seen_in(name: str) -> dict[str, object]:
    """Maps, measures and outputs of one variant."""
    model = variant(name)
    trace = model.trace(SENTENCE, second_of(name))
    return {"maps": maps_of(trace), "measures": measures_of(trace), "outputs": outputs_of(model, name)}


def interventions() -> dict[str, object]:
    """Every kind of change, on the decoder."""
    head, other = (at.HeadRef(stack="decoder", layer=layer, head=1 - layer) for layer in (1, 0))
    cells = np.tril(np.ones((7, 7), dtype=bool)) & (np.add.outer(np.arange(7), np.arange(7)) % 2 == 0)
    changes = {
        "gate": {"gates": {head: 0.25}},
        "remove edge": {"interventions": at.RemoveEdge(head=head, query=4, key=1)},
        "uniform": {"interventions": at.MakeUniform(head=head)},
        "mean": {"interventions": at.MakeMean(head=other)},
        "copy": {"interventions": at.CopyPattern(head=head, from_head=other, text="a dog saw the bird cat")},
        "mask": {"interventions": at.UseMask(stack="decoder", n_tokens=7, bits=np.packbits(cells).tobytes())},
    }
    return {name: outputs_of(variant("decoder"), "decoder", **change) for name, change in changes.items()}


def pruned() -> dict[str, object]:
    """A model without two heads: its size, its weights, its outputs."""
    model = variant("encoder-decoder")
    gates = model.gates()
    gates["encoder", 0, 1] = gates["cross", 1, 0] = 0.0
    smaller = model.prune(gates)
    trace = smaller.trace(SENTENCE, FRENCH)
    outputs = outputs_of(smaller, "encoder-decoder")
    return {"n_parameters": smaller.info.n_parameters, "maps": maps_of(trace), "outputs": outputs}


def recorded() -> dict[str, object]:
    """A layer stack of torch's own, seen by `at.record`; and arrays that are given."""
    layer = torch.nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, dropout=0.0)
    module = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    for i, parameter in enumerate(module.parameters()):
        parameter.data.copy_(ramp_of(*parameter.shape, start=100.0 * i) * 0.4)
    with at.record(module) as recording, torch.no_grad():
        module(ramp_of(1, 5, 8, start=7.0))
    trace = recording.trace(["the", "cat", "sat", "down", "."])
    given = at.from_arrays(ramp_of(2, 2, 4, 4).softmax(dim=-1).numpy(), list("abcd"))
    return {
        "recorded": maps_of(trace), "measures": measures_of(trace),
        "given": maps_of(given), "measures of given": measures_of(given),
    }  # fmt: skip


def tiles() -> dict[str, object]:
    """Parts of maps, whole and reduced to pixels, and logits."""
    trace = at.load("grammar", device="cpu").trace("the small black cat sleeps behind the old house")
    tile = trace.tile(("cross", 1), 0, slice(0, 9), slice(0, 9), size=(3, 3), reduce="max")
    mean = trace.tile(("encoder", 0), 2, slice(1, 8), slice(2, 9), size=(3, 2), reduce="mean")
    return {
        "whole": trace.weights(("cross", 1), 0), "max": tile, "mean": mean,
        "row": trace.row(("decoder", 1), 3, 5), "column": trace.column(("encoder", 1), 0, 4),
        "logits": trace.logits[:, :12],
    }  # fmt: skip


def scored() -> dict[str, object]:
    """Importance and a pruning curve, asked from Python."""
    model, pairs = variant("encoder-decoder"), list(zip(_TEXTS, _SECONDS, strict=True))
    curve = at.pruning_curve(model, pairs, "gradient", step_share=0.5)
    return {
        "gradient": [score.value for score in at.importance(model, pairs).scores],
        "leave-one-out": [score.value for score in at.importance(model, pairs, "leave-one-out").scores],
        "curve": [[point.n_removed, point.value] for point in curve.points],
    }


def roles() -> dict[str, object]:
    """What `measure_texts` finds of grammar's heads, and their roles."""
    pairs = [("the white cat sleeps", "le chat blanc dort"), ("my small dog runs", "mon petit chien court")]
    found = at.measure_texts(at.load("grammar", device="cpu"), pairs)
    columns = [found.table.names.index(name) for name in MEASURES_KEPT]
    return {
        "names": MEASURES_KEPT, "values": found.table.values[:, columns],
        "best offsets": found.table.best_offsets,
        "roles": [[role.name for role in card.roles] for card in found.cards],
    }  # fmt: skip


def tokenizers() -> dict[str, object]:
    """The pieces that each kind of tokenizer makes of one text, and their ids."""
    kinds = ("bpe", "byte-bpe", "wordpiece", "unigram", "words", "characters")
    made = {kind: train_tokenizer(kind, (*_TEXTS, *_SECONDS), vocab_size=300) for kind in kinds}
    texts = ("the cats sat, naïvely", "Le chat")
    read = {kind: [made[kind].encode(text).tokens for text in texts] for kind in kinds}
    return {
        kind: [[(token.id, token.piece) for token in tokens] for tokens in found]
        for kind, found in read.items()
    }


PYTHON: Mapping[str, Callable[[], object]] = {
    **{f"look at {name}": lambda name=name: seen_in(name) for name in VARIANTS},
    "interventions on decoder": interventions,
    "prune encoder-decoder": pruned,
    "record and from_arrays": recorded,
    "tiles of grammar": tiles,
    "importance of encoder-decoder": scored,
    "measure_texts on grammar": roles,
    "tokenizers": tokenizers,
}
DOORS = (*COMMANDS, *PYTHON)


def found_at(door: str, folder: Path) -> object:
    """What a door gives, tidied: as it is kept."""
    return tidied(PYTHON[door]() if door in PYTHON else told_by(door, folder), str(folder))


def tidied(value: object, folder: str = "") -> object:
    """Plain lists, numbers and strings; no prose, nothing of this machine; records as columns."""
    match value:
        case {"stack": str(stack), "layer": int(layer), "head": int(head)} if len(value) == 3:
            return f"{stack} L{layer}H{head}"
        case Mapping():
            keys = [key for key in value if key not in _UNSTEADY | _PROSE | _ADDED]
            return {str(key): tidied(value[key], folder) for key in keys}
        case str():
            return value.replace(folder, "FOLDER") if folder else value
        case bool() | int() | None:
            return value
        case float():
            return _rounded(value)
        case np.ndarray() | np.generic() | torch.Tensor():
            return tidied(value.tolist(), folder)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return tidied(dataclasses.asdict(value), folder)
        case Iterable():
            return _tidied_list(list(value), folder)
    raise TypeError(f"{type(value).__name__} is nothing that the file of public numbers can hold")


def _tidied_list(values: Sequence[object], folder: str) -> object:
    keys = [*values[0]] if values and isinstance(values[0], Mapping) and {*values[0]} != _HEAD else None
    if keys and all(isinstance(one, Mapping) and list(one) == keys for one in values):
        return {"each": tidied({key: [one[key] for one in values] for key in keys}, folder)}  # type: ignore[index]
    return folded([tidied(one, folder) for one in values])


def folded(values: list[object]) -> object:
    """A list of which half repeats what stands before, as runs of equal values; any other as it is."""
    runs: list[tuple[int, object]] = []
    for one in values:
        if runs and one == runs[-1][1] and type(one) is type(runs[-1][1]):
            runs[-1] = (runs[-1][0] + 1, one)
        else:
            runs.append((1, one))
    if len(values) < 3 or 2 * len(runs) > len(values):
        return values
    if len(runs) == 1:
        return {"times": runs[0][0], "value": runs[0][1]}
    return {"times": [n for n, _ in runs], "values": [one for _, one in runs]}


_HEAD = {"stack", "layer", "head"}


def _rounded(value: float) -> float | str:
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)


def differences(expected: object, found: object) -> Iterator[str]:
    """Where two are apart, each with what was expected and what was found."""
    yield from _apart(_unfolded(expected), _unfolded(found), "")


def _unfolded(value: object) -> object:
    """What `tidied` has folded up: equal values of a list, each by itself again."""
    if isinstance(value, dict):
        if value.keys() == {"times", "value"}:
            return [_unfolded(value["value"])] * value["times"]
        if value.keys() == {"times", "values"}:
            runs = zip(value["times"], value["values"], strict=True)
            return [_unfolded(one) for n, one in runs for _ in range(n)]
        return {key: _unfolded(one) for key, one in value.items()}
    return [_unfolded(one) for one in value] if isinstance(value, list) else value


def _apart(expected: object, found: object, where: str, largest: float = 0.0) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted({*expected, *found}):
            if key in expected and key in found:
                yield from _apart(expected[key], found[key], f"{where}.{key}")
            else:
                yield f"{where}.{key}: {'is new' if key in found else 'is missing'}"
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        largest = max(largest, _largest(expected))
        for i, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from _apart(one, other, f"{where}[{i}]", largest)
    elif not _is_close(expected, found, largest):
        yield f"{where}: expected {_shown(expected)}, found {_shown(found)}"


def _largest(values: object) -> float:
    if isinstance(values, list):
        return max(map(_largest, values), default=0.0)
    return abs(values) if isinstance(values, float) else 0.0


def _is_close(expected: object, found: object, largest: float) -> bool:
    if type(expected) is not float:
        return type(expected) is type(found) and expected == found
    allowed = LEAST + OF_LARGEST * largest + RELATIVE * abs(expected)
    return type(found) is float and abs(found - expected) <= allowed


def _shown(value: object) -> str:
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return repr(value)


def n_numbers(value: object) -> int:
    """How many numbers there are."""
    return _n_numbers(_unfolded(value))


def _n_numbers(value: object) -> int:
    if isinstance(value, dict | list):
        return sum(map(_n_numbers, value.values() if isinstance(value, dict) else value))
    return int(isinstance(value, float | int) and not isinstance(value, bool))
