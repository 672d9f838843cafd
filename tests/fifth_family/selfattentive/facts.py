"""Facts about structured self-attentive embeddings that the tests of every family need."""

from hf_localattn.families.facts import Facts, like_torch

FACTS = Facts(
    tiny_fields={"hops": 3, "attention_size": 7, "bilstm_hidden_size": 8, "classifier_dropout": 0.0},
    traceable={"use_bilstm": False},
    starts=[({"use_bilstm": False}, r"^attention\..*weight", like_torch)],
    new_parameters=[({"use_bilstm": False}, 768 * 350 + 350 * 30 + 30 * 768 * 768 + 768)],
)
