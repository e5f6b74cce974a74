"""Everything the weights of one head say: the singular values of both products, then their token pairs.

Singular values come first: they need no vocabulary. A product that cannot be had is refused by name, and the
other one is read all the same.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from attnscope.analysis.circuits import head_circuit
from attnscope.analysis.head_weights import HeadWeights, weights_of
from attnscope.errors import UserError
from attnscope.models.model import Model
from attnscope.records.head_weights import N_PAIRS, HeadWeightsFound, WeightPart
from attnscope.records.importance import Progress
from attnscope.records.redundancy import CircuitKind, HeadCircuit, SiteSpectrum
from attnscope.records.sites import HeadRef, Site, SiteKey, check_heads, find_site

# How many dimensions heads need, each alone and all together: singular values of W_Q W_Kᵀ and of W_V W_O.


def site_spectrum(model: Model, site: SiteKey, kind: CircuitKind = "qk") -> SiteSpectrum:
    """The singular values of one site; raises UserError for a model whose weights cannot be read."""
    return _spectrum(weights_of(model, site), find_site(model.sites, site), kind)


def _spectrum(weights: HeadWeights, site: Site, kind: CircuitKind) -> SiteSpectrum:
    if kind == "qk":
        left, right = weights.q, weights.k  # [n_heads, d_head, d_model] each
    else:
        left, right = weights.v, weights.o.transpose(1, 2)
    single = torch.stack([product_spectrum(a, b) for a, b in zip(left, right, strict=True)])
    stacked = product_spectrum(left.flatten(0, 1), right.flatten(0, 1))
    return SiteSpectrum(site=site, single=single.cpu().numpy(), stacked=stacked.cpu().numpy(), kind=kind)


def product_spectrum(q: Tensor, k: Tensor) -> Tensor:
    """Singular values of qᵀ k, falling; q and k are [n_rows, d_model]. At most min(n_rows, d_model) of them.

    From the small triangles of two QR decompositions, so that no [d_model, d_model] product is made.
    """
    upper_q = torch.linalg.qr(q.T, mode="r").R  # [min(d_model, n_rows), n_rows]
    upper_k = torch.linalg.qr(k.T, mode="r").R
    values: Tensor = torch.linalg.svdvals(upper_q @ upper_k.T)
    return values


KINDS: tuple[CircuitKind, ...] = ("ov", "qk")


def read_head_weights(
    model: Model, head: HeadRef, top: int = N_PAIRS
) -> Iterator[Progress | HeadWeightsFound]:
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
