"""Which inputs one logit owes itself to: attention weighted by its gradient, layer upon layer.

| symbol | meaning                                                    | shape                  |
|--------|------------------------------------------------------------|------------------------|
| y      | the logit that is explained                                | one number             |
| ∇a     | ∂y/∂a of one site                                          | [n_heads, n_q, n_k]    |
| Ā      | mean over heads of (∇a ∘ a)⁺ (equation 5)                  | [n_q, n_k]             |
| R_ss   | relevance of the tokens of one text to each other          | [n_s, n_s]             |
| R_sq   | relevance of the source tokens q to the target tokens s    | [n_s, n_q]             |

Chefer, Gur and Wolf 2021, checked against their code (Transformer-MM-Explainability, DETR, commit
14e55eee). Self-attention: R_ss ← R_ss + Ā R_ss and R_sq ← R_sq + Ā R_sq (6, 7), from R_ss = I and
R_sq = 0. Cross-attention: R_sq ← R_sq + N(R_ss)ᵀ Ā N(R_qq) (10), where N divides each row of R − I by its
sum and adds I again (8, 9); a row of zeros stays zero.

For a class of a whole input the row is Σ_i p_i R_i, with p the tokens that its logit is read off
(`answers.py`; ours): R of [CLS] where that token is read, as in their vision models.

The gradient of a weight needs no weights in the graph: ∂y/∂a_ij = ∂y/∂o_i · v_j, with o the head's output.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from attnscope.analysis.answers import ClassSubject, reads_classes, told_position
from attnscope.analysis.flow import check_position
from attnscope.analysis.importance import gate_tensors
from attnscope.analysis.model_adapter import (
    OwnSubject,
    Subject,
    TokenBatch,
    require_tokens,
    subject_of,
)
from attnscope.analysis.reading import predicting_tokens, read_text
from attnscope.analysis.watched_pass import WatchedCalls
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.inputs import Inputs
from attnscope.models.model import Model
from attnscope.models.outputs import best_ids
from attnscope.nn.computing import exact
from attnscope.nn.edits import Edits
from attnscope.records.causes import InfluenceMap
from attnscope.records.interventions import Interventions
from attnscope.records.sites import NO_GATES, Gates, Site, SiteKey, require_heads
from attnscope.records.tokens import Token


def relevance(
    model: Model,
    text: str,
    target: str | None = None,
    *,
    position: int = -1,
    token_id: int | None = None,
    gates: Gates = NO_GATES,
    interventions: Interventions = (),
    keeps_start: bool = True,
) -> InfluenceMap:
    """The relevance of every input token to the logit of one token at one position: a map of one row.

    `token_id` None explains the token, or the class, that the model says there, with these gates and
    changes. In the form encoder–decoder the columns are the source tokens, then the target tokens.
    `keeps_start` False takes off the 1 that every token starts with. A class of the whole input is told at
    one position (`told_position`); raises UserError for another.
    """
    inputs, batch = read_text(model, text, target)
    queries = predicting_tokens(inputs)
    position = check_position(position, len(queries))
    subject, place = _asked(model, inputs, position)
    edits = model.edits(interventions)
    explained, maps = relevance_maps(subject, batch, place, token_id=token_id, gates=gates, edits=edits)
    own, other = combine_maps(subject.sites, maps, len(inputs.source), len(queries))
    start = torch.eye(len(queries), dtype=own.dtype, device=own.device)[position]
    if isinstance(subject, ClassSubject):
        probe = WatchedCalls(gate_tensors(subject, gates) if gates else {}, edits)
        start = subject.reading_shares(explained, place, probe)
    row = start @ own if keeps_start else start @ own - start
    if other is not None:
        row = torch.cat((start @ other, row))
    source: tuple[Token, ...] = () if other is None else inputs.source.tokens
    said = model.network.answer(explained).piece
    where = f'at "{queries[position].piece}" ({position})'
    if isinstance(subject, ClassSubject) and subject.is_of_whole:
        where = f"of the whole {model.info.reads}"
    return InfluenceMap(
        method="relevance",
        queries=(queries[position],),
        keys=(*source, *queries),
        weights=row[None].float().cpu().numpy(),
        n_source=len(source),
        about=f'logit of "{said}" {where}',
    )


def _asked(model: Model, inputs: Inputs, position: int) -> tuple[Subject, int]:
    """The subject behind a model, and where among its logits the position stands."""
    network = model.network
    if isinstance(network, HuggingFaceNetwork) and reads_classes(model):
        place = 0 if network.task.is_pooled else position
        told_position(model, inputs, position)
        return ClassSubject(network, inputs), place
    subject = subject_of(model)
    require_heads(model.sites)
    if isinstance(subject, OwnSubject):
        subject.require_transformer()
        require_tokens(model)
    return subject, position


def relevance_maps(
    subject: Subject,
    batch: TokenBatch,
    position: int,
    *,
    token_id: int | None = None,
    gates: Gates = NO_GATES,
    edits: Mapping[SiteKey, Edits] | None = None,
) -> tuple[int, dict[SiteKey, Tensor]]:
    """The explained token, and Ā of every site, float64 [n_queries, n_keys], for a batch of one."""
    probe = WatchedCalls(gate_tensors(subject, gates) if gates else {}, edits)
    with subject.studying(), torch.enable_grad():
        logits = subject.logits(subject.hidden(batch, probe)[0, position])
        explained = int(best_ids(logits)) if token_id is None else token_id
        outs = [seen.out for seen in probe.seen.values()]
        gradients = torch.autograd.grad(logits[explained], outs, allow_unused=True)
    maps = {}
    for (site, seen), gradient in zip(probe.seen.items(), gradients, strict=True):
        a = seen.weights()
        slope = torch.zeros_like(a) if gradient is None else exact(gradient[0]) @ seen.values().mT
        maps[site] = (slope * a).clamp(min=0).mean(dim=0)
    return explained, maps


def combine_maps(
    sites: tuple[Site, ...], maps: dict[SiteKey, Tensor], n_source: int, n_own: int
) -> tuple[Tensor, Tensor | None]:
    """R_ss and R_sq of the text that predicts; R_sq is None where there is no other text."""
    order = sorted(sites, key=lambda site: (site.layer, site.stack == "cross"))
    has_cross = any(site.stack == "cross" for site in sites)
    device = next(iter(maps.values())).device
    source = torch.eye(n_source, dtype=torch.float64, device=device)
    own = torch.eye(n_own, dtype=torch.float64, device=device)
    other = torch.zeros(n_own, n_source, dtype=torch.float64, device=device)
    for site in order:  # the encoder whole, before the decoder reads it
        if site.stack == "encoder":
            source = source + maps[site.key] @ source
    for site in order:
        a = maps[site.key]
        if site.stack == "decoder":
            own, other = own + a @ own, other + a @ other
        elif site.stack == "cross":
            other = other + normalise_rows(own).T @ a @ normalise_rows(source)
    if has_cross:
        return own, other
    return (own if any(site.stack == "decoder" for site in sites) else source), None


def normalise_rows(relevance: Tensor) -> Tensor:
    """Equations 8 and 9: each row of R − I divided by its sum, plus I."""
    eye = torch.eye(*relevance.shape, dtype=relevance.dtype, device=relevance.device)
    gained = relevance - eye
    sums = gained.sum(dim=-1, keepdim=True)
    return torch.where(sums > 0, gained / sums.clamp(min=torch.finfo(sums.dtype).tiny), 0.0) + eye
