"""The pipeline "negation": cues and their scopes in raw text."""

from collections.abc import Sequence
from typing import Any

from torch.utils.data import Dataset
from transformers import Pipeline

from .negation_finder import NegationFinder
from .negation_model import ModelLabeler
from .negation_reading import Reading, check_texts

BATCH = 128
"""Texts whose sentences are read together."""


class NegationPipeline(Pipeline):
    """Cues of negation or speculation in raw text, and the words in the scope of each.

    Raises:
        ValueError: The model does not predict scopes, or the tokenizer has no cue markers.

    Example:
        >>> from transformers import AutoTokenizer, pipeline
        >>> from hf_localattn import OaXLNetForTokenClassification, OaXLNetTokenizer
        >>> from hf_localattn.resources import tiny_backbone
        >>> tokenizer = OaXLNetTokenizer.from_backbone(AutoTokenizer.from_pretrained(tiny_backbone()))
        >>> labels = dict(enumerate(["O", "SCOPE", "negation:affix", "negation:single", "negation:multi"]))
        >>> model = OaXLNetForTokenClassification.from_backbone(tiny_backbone(), id2label=labels)  # untrained
        >>> _ = model.resize_token_embeddings(len(tokenizer))
        >>> finder = pipeline("negation", model=model, tokenizer=tokenizer)
        >>> for found in finder("He neither spoke nor moved."):
        ...     assert set(found) == {"cue", "kind", "type", "score", "scope", "scope_score", "sentence"}
    """

    _load_tokenizer = True
    _load_feature_extractor = False
    _load_image_processor = False
    _load_processor = False
    default_input_names = "text"

    def __init__(self, model: Any, tokenizer: Any, **kwargs: Any):
        self.finder = NegationFinder(ModelLabeler(model, tokenizer))
        super().__init__(model=model, tokenizer=tokenizer, **{"batch_size": BATCH, **kwargs})

    def __call__(self, inputs: Any, **settings: Any) -> Any:
        """Find the cues in one or more texts, and their scopes; or the scopes of cues that the texts mark.

        In a text with cue markers, such as `He did [CUE] not go.`, the word after each marker belongs to the cue of
        its sentence. Its score is 1, and sentences without a marker have no result.

        Args:
            inputs (str, list or iterator): A text; a list of texts; or an iterator, which is read lazily.
            **settings: Those of `Reading`, such as `convention="notes"`, and the following.
            batch_size (int, *optional*, defaults to 128): Texts that are read together.

        Returns:
            For each text a list of dicts, one for each cue, in the order of the text:

            * `cue`: the parts of the cue, a list of dicts with `text`, `start` and `end` (characters of the text). An
              affix is a part of its word.
            * `kind`: "negation" or "speculation"; `type`: "affix", "single" or "multi".
            * `score`: mean probability of the labels of the cue's words.
            * `scope`: the spans of the scope, in the same form as the cue. A scope may be empty or have gaps.
            * `scope_score`: mean probability of the predicted labels of the sentence's words.
            * `sentence`: dict with `start` and `end`.

        Raises:
            ValueError: An input is not a text, or has no marked cue and the model finds none; or a setting has an
                unknown value.
            TypeError: A setting is unknown.
        """
        if isinstance(inputs, str | Dataset):  # such as transformers' `KeyDataset`
            return super().__call__(inputs, **settings)
        check_texts(inputs)
        if isinstance(inputs, Sequence):  # tuples and columns of data sets, too
            return super().__call__(list(inputs), **settings) if len(inputs) else []
        return super().__call__((text for text in inputs), **settings)  # the base class reads only generators lazily

    def _sanitize_parameters(
        self,
        *,
        local_files_only: bool | None = None,  # `pipeline(...)` passes it on
        **settings: Any,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        Reading.of(**settings)  # checks names and values
        return settings, settings, {}

    def preprocess(self, text: Any, **settings: Any) -> dict[str, Any]:
        """Check that the input is a text."""
        Reading(**settings).check_text(text, "The input")
        return {"text": text}

    def _forward(self, inputs: dict[str, Any], **settings: Any) -> dict[str, Any]:
        texts = inputs["text"]  # a list of them in a batch
        reading = Reading(**settings)
        findings = self.finder([texts] if isinstance(texts, str) else texts, reading)
        return {"negations": findings[0] if isinstance(texts, str) else findings}

    def postprocess(self, outputs: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the cues of a text."""
        negations: list[dict[str, Any]] = outputs["negations"]
        return negations
