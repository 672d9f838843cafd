"""Question generation: generating a question from a passage and an answer in it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import datasets
import numpy as np
from transformers import DataCollatorForSeq2Seq, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.data.generation import REFERENCE, generation_features
from hf_localattn.data.questions import load_answered
from hf_localattn.data.rows import LABELED, Data, labeled_rows
from hf_localattn.metrics.generation_scores import generation, meteor_name
from hf_localattn.settings.data import QuestionGenerationDataArguments
from hf_localattn.tasks.labels import Head
from hf_localattn.tasks.task import Encoder, Encoding, Rows, Scored, Split, Target, Task, input_length

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GenerationEncoding(Encoding):
    """Tokenizer and lengths of an encoder-decoder. `max_length` is that of passages with answers.

    Args:
        target_length: Maximum number of tokens of a training question.
        generated_length: Maximum number of tokens of other and of generated questions.
        label_padding: Label of the padding of questions.
        num_beams: Number of beams of the generation.
    """

    target_length: int
    generated_length: int
    label_padding: int
    num_beams: int


class QuestionGeneration(Task):
    """Generation of questions from a passage and an answer by an encoder-decoder."""

    name = "question-generation"
    model_task = "text2text-generation"
    input_columns = ("context", "question")
    DataArguments = QuestionGenerationDataArguments
    generates = True
    own_metrics = ("generation",)
    group_column = "context"  # a passage must not be in both training and test data
    args: QuestionGenerationDataArguments

    def read(
        self, data: Data, layout: Any = None, *, labeled: bool, predicted: bool = False
    ) -> tuple[datasets.Dataset, Any]:
        return load_answered(data, require_questions=labeled, skip_empty=self.args.skip_empty), None

    def choose_target(self, rows: Rows, layout: Any, head: Head) -> Target:
        metrics = {"bleu": True, "rouge_l": True, meteor_name(): True, "loss": False}
        examples = ["a text of a few words"]
        return Target(metrics, own_metrics=self.own_metrics, examples=(examples, examples))

    def adapt(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, training_args: Any
    ) -> GenerationEncoding:
        tokenizer.padding_side = "right"  # as encoder-decoders need it
        args = self.args
        source, target, generated = (
            input_length(model, tokenizer, getattr(args, name), name)
            for name in ("max_source_length", "max_target_length", "val_max_target_length")
        )
        label_padding = -100 if args.ignore_pad_token_for_loss else tokenizer.pad_token_id
        num_beams = args.num_beams or training_args.generation_num_beams or 1
        return GenerationEncoding(tokenizer, source, target, generated, label_padding, num_beams)

    def choose_arguments(self, encoding: GenerationEncoding, training_args: Any) -> dict[str, Any]:
        return {
            "generation_num_beams": self.args.num_beams or training_args.generation_num_beams,
            "generation_max_length": training_args.generation_max_length or encoding.generated_length,
        }

    def encoder(self, split: str, target: Target, encoding: GenerationEncoding) -> Encoder:
        return generation_features, {
            "max_source_length": encoding.max_length,
            "max_target_length": encoding.target_length if split == "train" else encoding.generated_length,
            "pad_to_max_length": self.args.pad_to_max_length,
            "label_pad_token_id": encoding.label_padding,
        }

    def finish_features(
        self, name: str, rows: datasets.Dataset, features: datasets.Dataset, encoding: GenerationEncoding
    ) -> Split:
        return Split(name, rows, features)  # long passages are cut around the answer

    def collator(self, encoding: GenerationEncoding, model: PreTrainedModel, multiple: int | None) -> Any:
        return DataCollatorForSeq2Seq(
            encoding.tokenizer,
            model=model,
            label_pad_token_id=encoding.label_padding,
            pad_to_multiple_of=multiple,
        )

    def score(self, split: Split, outputs: Any, target: Target, encoding: GenerationEncoding) -> Scored:
        """Return the generated texts in one line each, and their scores if there are references.

        The scores are those of `hf_localattn.metrics`, `gen_len` (mean number of generated tokens, without padding)
        and `num_beams`. If some test rows have no question, the others are scored, and `labeled_samples` counts these.
        """
        padding = encoding.tokenizer.pad_token_id
        ids = np.where(outputs < 0, padding, outputs)
        decoded = encoding.tokenizer.batch_decode(ids, skip_special_tokens=True)
        texts = [" ".join(text.splitlines()).strip() for text in decoded]
        if len(texts) > 1 and len(set(texts)) == 1:
            logger.warning(
                "The model writes the same for all %s rows (%r): train it longer, or with another --learning_rate.",
                split.name,
                texts[0],
            )
        scores: dict[str, Any] = {
            "gen_len": float(np.mean(np.count_nonzero(ids != padding, axis=1))),
            "num_beams": encoding.num_beams,
        }
        predictions = texts
        if REFERENCE in split.features.column_names:
            references = list(split.features[REFERENCE])
        else:
            labeled, references = labeled_rows(split.rows)
            if not labeled:
                return Scored(texts, scores)
            predictions = [texts[row] for row in labeled]
            scores[LABELED] = len(labeled)
        scores |= generation(predictions, references)
        notes = {"bleu_signature": scores.pop("bleu_signature")}
        return Scored(texts, scores, notes=notes, pair=(predictions, references))

    def files(self, split: Split, predictions: Any, target: Target) -> dict[str, str]:
        """Return generated_predictions.txt: the generated questions, one line per answered row."""
        return {"generated_predictions.txt": "".join(f"{question}\n" for question in predictions)}
