"""Facts about SLA for tests."""

from __future__ import annotations

from hf_localattn.families.facts import Facts

FACTS = Facts(
    tiny_fields={"syntax_threshold": 1},
    rows={"three layers of sgnet": {"local_attention": "sgnet", "num_sgnet_layers": 3}},
    starts=[
        ({}, "gate.bias", lambda weight: 0.0),
        ({"gate_bias_init": -3.0}, "gate.bias", lambda weight: 3.0),
        ({"local_attention": "sgnet"}, "mixture", lambda weight: 0.0),
    ],
    new_parameters=[({}, 12 * 769), ({"sla_layers": [1, 3]}, 2 * 769)],
)
