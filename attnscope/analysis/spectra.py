"""How many dimensions heads need, each alone and all together: singular values of W_Q W_Kᵀ and of W_V W_O.

Cordonnier, Loukas and Jaggi 2020 (section 3.1): the products of single heads have nearly full rank, but
stacked heads share dimensions, so that the product of all of them, W_Q W_Kᵀ with the heads side by side,
falls off sooner. What heads write, W_V W_O (Elhage et al. 2021), is looked at in the same way. Biases, norms
and rotary turns are left out.
"""

import torch
from torch import Tensor

from attnscope.analysis.head_weights import HeadWeights, weights_of
from attnscope.analysis.subject import own_subject
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.model import Model
from attnscope.records.redundancy import CircuitKind, SiteSpectrum
from attnscope.records.sites import Site, SiteKey, find_site


def head_spectra(model: Model, kind: CircuitKind = "qk") -> tuple[SiteSpectrum, ...]:
    """The singular values of every site, in order."""
    if not isinstance(model.network, HuggingFaceNetwork):
        own_subject(model)
    return tuple(_spectrum(weights_of(model, site.key), site, kind) for site in model.sites)


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
