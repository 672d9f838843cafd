"""Attention maps, gates and token weights of a model, as arrays, pictures and HTML pages."""

from hf_localattn.inspection.attribution import token_influence
from hf_localattn.inspection.draw import draw_features, draw_gates, draw_maps, draw_token_weights, picture
from hf_localattn.inspection.html import render_page
from hf_localattn.inspection.maps import AttentionMap, attention_map
from hf_localattn.inspection.weights import GateValues, TokenWeights, gate_values, token_weights

__all__ = [
    "AttentionMap",
    "GateValues",
    "TokenWeights",
    "attention_map",
    "draw_features",
    "draw_gates",
    "draw_maps",
    "draw_token_weights",
    "gate_values",
    "picture",
    "render_page",
    "token_influence",
    "token_weights",
]
