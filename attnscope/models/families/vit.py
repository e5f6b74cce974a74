"""ViT (Dosovitskiy et al. 2020), and the vision parts of CLIP and SigLIP."""

from typing import Any

from attnscope.models.families.family import Family, ForeignSite, GroupedHeads, separate_site


class ViT(GroupedHeads):
    name, title, order = "vit", "ViT", 4

    def sites(self, model: Any) -> list[ForeignSite]:
        names = ("q_proj", "k_proj", "v_proj", "o_proj")
        return [
            separate_site(("encoder", i), layer.attention, names, layer.attention.head_dim)
            for i, layer in enumerate(model.base_model.layers)
        ]


class Data2VecVision(Family):
    name, title = "data2vec-vision", "data2vec (pictures)"

    def prepare(self, model: Any) -> str:
        """Its fused attention is a class that never returns weights: switch to the plain one."""
        for part in model.modules():
            if type(part).__name__ == "Data2VecVisionSdpaSelfAttention":
                part.__class__ = type(part).__base__
        return ""


class CLIP(Family):
    name, title = "clip", "CLIP"
    vision_class = "CLIPVisionModel"


class SigLIP(Family):
    name, title = "siglip", "SigLIP"
    vision_class = "SiglipVisionModel"


class SigLIP2(Family):
    name, title = "siglip2", "SigLIP 2"
    vision_class = "Siglip2VisionModel"
