"""BART (Lewis et al. 2019), its relatives and other translators; OPT (Zhang et al. 2022), a decoder alone."""

from collections.abc import Mapping
from typing import Any, ClassVar

from attnscope.models.families.family import Family, ForeignSite, FreeHeads, separate_site
from attnscope.records.sites import SiteKey


class BART(FreeHeads):
    name, title, order = "bart", "BART", 8
    last_norm = ""
    head_counts: ClassVar[Mapping[str, str]] = {
        "encoder": "encoder_attention_heads",
        "decoder": "decoder_attention_heads",
        "cross": "decoder_attention_heads",
    }

    def sites(self, model: Any) -> list[ForeignSite]:
        names, body = ("q_proj", "k_proj", "v_proj", "out_proj"), model.base_model
        found = []
        for stack in ("encoder", "decoder"):
            part = getattr(body, stack, None)
            for i, layer in enumerate(part.layers if part is not None else ()):
                key: SiteKey = (stack, i)
                found.append(separate_site(key, layer.self_attn, names, layer.self_attn.head_dim))
                if hasattr(layer, "encoder_attn"):
                    cross = layer.encoder_attn
                    found.append(separate_site(("cross", i), cross, names, cross.head_dim))
        return found


class Marian(Family):
    name, title = "marian", "Marian"
    last_norm = ""
    is_translator = True


class MBART(Family):
    name, title = "mbart", "mBART"
    last_norm = "layer_norm"
    is_translator = True


class M2M100(Family):
    name, title = "m2m_100", "M2M100"
    is_translator = True


class NLLBMoE(Family):
    name, title = "nllb-moe", "NLLB-MoE"
    is_translator = True


class FSMT(Family):
    name, title = "fsmt", "FSMT"
    is_translator = True


class OPT(Family):
    name, title = "opt", "OPT"
    last_norm = "final_layer_norm"
