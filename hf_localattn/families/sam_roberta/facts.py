"""Facts about SAM for tests."""

from __future__ import annotations

from hf_localattn.families.facts import Facts, like_torch

H = 768

FACTS = Facts(
    # With width 1, a ReLU network may be dead from the start.
    tiny_fields={"bilstm_hidden_size": 16, "fam_reduction": 2, "tam_hidden_size": 9, "dropout": 0.0},
    rows={
        "sam": {},
        "delta": {"fam_threshold": 0.1},
        "learned": {"learn_fam_threshold": True},
        "sum": {"bilstm_merge": "sum"},
    },
    # Hidden layers wide enough that none falls silent as a whole.
    row_fields={"fam_reduction": 1, "tam_max_length": 20, "bilstm_hidden_size": 6, "disan_hidden_size": 5},
    traceable={"use_bilstm": False},  # torch does not trace into the packing of a BiLSTM's rows
    starts=[
        ({"use_bilstm": False}, "sequential.*weight", like_torch),
        ({}, "lstm.weight_hh", like_torch),
        ({"learn_fam_threshold": True}, "threshold_bias", lambda weight: 2.197),
    ],
    new_parameters=[
        ({"use_bilstm": False}, (2 * H * 48 + 48 + H) + (2 * 512 * 32 + 32 + 512)),
        ({}, 2 * 4 * 256 * (H + 512 + 2 * 256 + 2 * 2) + 2 * (2 * 512 * 32 + 32 + 512)),
        ({"use_bilstm": False, "use_fam": False, "tam_ffn": "token"}, 3 * 16),
        ({"pooling": "none", "encoder_states": "mix"}, 13 + 1),
        ({"pooling": "none", "encoder_states": [0, 12]}, 0),
    ],
)
