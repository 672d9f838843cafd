"""A model that finds cues and scopes by rules, so that tests know its predictions."""

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast
from transformers.modeling_outputs import TokenClassifierOutput

from hf_localattn.models.negation_finder import CUE_LABELS, SCOPE_LABELS

NAMES = [*SCOPE_LABELS, *CUE_LABELS]
CUES = {
    **dict.fromkeys(["not", "no", "never", "n't", "none"], "negation:single"),
    **dict.fromkeys(["neither", "nor"], "negation:multi"),
    **dict.fromkeys(["unhappy", "impossible"], "negation:affix"),
    **dict.fromkeys(["may", "perhaps"], "speculation:single"),
}


def tokenizer_of_words(padding_side="right"):
    """A tokenizer that knows the words of `CUES`; each word is a token."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[CUE]", *CUES]
    tokenizer = Tokenizer(models.WordLevel({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, padding_side=padding_side, extra_special_tokens=["[CUE]"], **special
    )


class RuleModel(BertForTokenClassification):
    """Labels the words of `CUES`. In an input with markers, all words after the first marked one are in scope.

    Padding has the label of a cue, so a test fails if it is read.
    """

    def __init__(self, tokenizer, positions=512):
        small = {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 4}
        super().__init__(
            BertConfig(
                vocab_size=len(tokenizer),
                max_position_embeddings=positions,
                id2label=dict(enumerate(NAMES)),
                label2id={name: i for i, name in enumerate(NAMES)},
                **small,
            )
        )
        ids = {word: tokenizer.convert_tokens_to_ids(word) for word in CUES}
        self.marker = tokenizer.convert_tokens_to_ids("[CUE]")
        self.labels_of_tokens = torch.zeros(len(tokenizer), dtype=torch.long)
        for word, label in CUES.items():
            self.labels_of_tokens[ids[word]] = NAMES.index(label)
        self.labels_of_tokens[tokenizer.pad_token_id] = NAMES.index("negation:single")
        self.batches = []

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, return_dict=True):
        """Return logits (B, L, labels)."""
        self.batches.append(len(input_ids))
        markers = (input_ids == self.marker).int()
        after = markers.cumsum(dim=1).roll(2, dims=1).clamp(max=1)  # the marker and its word are outside
        after[:, :2] = 0
        labels = torch.where(markers.any(dim=1, keepdim=True), after.long(), self.labels_of_tokens[input_ids])
        return TokenClassifierOutput(logits=4.0 * torch.nn.functional.one_hot(labels, len(NAMES)))
