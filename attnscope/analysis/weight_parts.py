"""Everything the weights of one head say: the singular values of both products, then their token pairs.

Singular values come first: they need no vocabulary. A product that cannot be had is refused by name, and the
other one is read all the same.
"""

from collections.abc import Iterator
from dataclasses import replace

from attnscope.analysis.circuits import head_circuit
from attnscope.analysis.spectra import site_spectrum
from attnscope.errors import UserError
from attnscope.models.model import Model
from attnscope.records.head_weights import N_PAIRS, HeadWeightsFound, WeightPart
from attnscope.records.importance import Progress
from attnscope.records.redundancy import CircuitKind, HeadCircuit
from attnscope.records.sites import HeadRef, check_heads

KINDS: tuple[CircuitKind, ...] = ("ov", "qk")


def read_weights(model: Model, head: HeadRef, top: int = N_PAIRS) -> Iterator[Progress | HeadWeightsFound]:
    """Progress block by block, and what is known after each part; raises UserError for an unknown head."""
    check_heads((head,), model.sites)
    found = HeadWeightsFound(head=head)
    for kind in KINDS:
        found = replace(found, parts=(*found.parts, _with_spectrum(WeightPart(kind=kind), model, head)))
        yield found
    for index, kind in enumerate(KINDS):
        part = found.parts[index]
        try:
            for one in head_circuit(model, head, kind, top):
                if isinstance(one, HeadCircuit):
                    part = replace(part, circuit=one)
                else:
                    yield Progress(n_done=one.n_done, n_total=one.n_total, about=kind.upper())
        except UserError as error:
            part = replace(part, refusal=str(error))
        found = replace(found, parts=tuple(part if p.kind == kind else p for p in found.parts))
        yield found


def _with_spectrum(part: WeightPart, model: Model, head: HeadRef) -> WeightPart:
    try:
        return replace(part, spectrum=site_spectrum(model, head.site_key, part.kind))
    except UserError as error:
        return replace(part, no_spectrum=str(error))
