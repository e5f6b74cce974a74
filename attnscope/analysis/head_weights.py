"""A head's own weights, cut out of the products that hold all heads.

| symbol | meaning                                     | shape                       |
|--------|---------------------------------------------|-----------------------------|
| q, k, v| rows that turn a stream into the head's     | [n_heads, d_head, d_model]  |
| o      | columns that turn its output into a stream  | [n_heads, d_model, d_head]  |

Query head h has the keys and values that it reads, so grouped ones appear once for each head. float64.
The matrix of a bilinear score is part of q.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.analysis.model_adapter import OwnSubject, own_subject
from attnscope.errors import UserError
from attnscope.models.huggingface.head_rows import head_rows
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.model import Model
from attnscope.nn.layers import CrossAttention, SelfAttention
from attnscope.nn.precision import exact
from attnscope.records.sites import SiteKey


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadWeights:
    """The weights of every head of one site, without biases; `score_scale` None: the score is no product."""

    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor
    score_scale: float | None

    @property
    def scale(self) -> float:
        """What scores are multiplied by; raises UserError where a score is not a product of q and k."""
        if self.score_scale is None:
            raise UserError(
                "This model's scores are not products of a query and a key.",
                expected="the score dot, scaled-dot or general",
                action="Look at its maps instead.",
            )
        return self.score_scale


def weights_of(model: Model, site: SiteKey) -> HeadWeights:
    """The weights of a site's heads, of any model; raises UserError, by name, where they cannot be found."""
    network = model.network
    if not isinstance(network, HuggingFaceNetwork):
        return head_weights(own_subject(model), site)
    rows = head_rows(network, site)
    return HeadWeights(q=rows.q, k=rows.k, v=rows.v, o=rows.o, score_scale=rows.scale)


def head_weights(subject: OwnSubject, site: SiteKey) -> HeadWeights:
    """The weights of a site's heads."""
    block = subject.block(site)
    module = block.cross if site[0] == "cross" else block.attention
    if isinstance(module, SelfAttention):
        n_kv_rows = module.n_kv_heads * module.d_head
        q, k, v = torch.split(module.qkv.weight, [module.n_heads * module.d_head, n_kv_rows, n_kv_rows])
    elif isinstance(module, CrossAttention):
        q, (k, v) = module.query.weight, module.kv.weight.chunk(2)
    else:
        raise ValueError(f"the site {site} has no heads")
    groups = list(module.layout.groups)

    def of_heads(rows: Tensor) -> Tensor:
        return exact(rows.detach()).reshape(-1, module.d_head, rows.shape[1])

    o = exact(module.output.weight.detach())
    scoring = module.scoring
    queries, scale = of_heads(q), module.d_head**-0.5
    is_bilinear = scoring is None or scoring.kind.is_bilinear
    if scoring is not None:
        scale = scoring.scale
        if is_bilinear and scoring.learned is not None:
            queries = exact(scoring.learned.detach()).transpose(1, 2) @ queries
    return HeadWeights(
        q=queries,
        k=of_heads(k)[groups],
        v=of_heads(v)[groups],
        o=o.reshape(len(o), module.n_heads, module.d_head).transpose(0, 1),
        score_scale=scale if is_bilinear else None,
    )
