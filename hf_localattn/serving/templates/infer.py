"""Answers of the ONNX model in this folder. Needs onnxruntime and tokenizers, and transformers for SLA and OA.

python infer.py TEXT [SECOND TEXT]        # labels of a text, of its tokens, tokens for its masks, or its features
python infer.py QUESTION CONTEXT          # question answering
python infer.py PROMPT CHOICE CHOICE ...  # multiple choice
"""

import json
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

FOLDER = Path(__file__).resolve().parent


class Model:
    """The graph and the tokenizer of a folder that `hf-localattn export` has written."""

    def __init__(self, folder: Path = FOLDER):
        self.settings = json.loads((folder / "export.json").read_text(encoding="utf-8"))
        self.tokenizer = load_tokenizer(folder, self.settings)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors
        self.session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )

    def __call__(self, *texts: str) -> Any:
        """Return the answer for one text or several texts, as the task needs them."""
        task = self.settings["task"]
        fewest, most = {"question-answering": (2, 2), "multiple-choice": (2, 1000)}.get(task, (1, 2))
        if not fewest <= len(texts) <= most:
            raise ValueError(f"Give {fewest} to {most} texts, not {len(texts)}: see the first lines of infer.py.")
        if task == "multiple-choice":
            return self.choose(*texts)
        if task == "question-answering" and not self.settings["question_is_first"]:
            inputs, (encoding,) = self.encode([texts[::-1]])
        else:
            inputs, (encoding,) = self.encode([texts])
        outputs = self.run(inputs)
        if task == "question-answering":
            return self.answer(texts[1], encoding, outputs)
        if task == "text-classification":
            return self.label(outputs["logits"][0])
        if task == "token-classification":
            best = outputs["logits"][0].argmax(-1)
            return [
                [token, self.settings["labels"][label]] for token, label in zip(encoding.tokens, best, strict=True)
            ]
        if task == "fill-mask":
            return self.fill(encoding, outputs["logits"][0])
        return outputs["last_hidden_state"][0].mean(0).tolist()

    def encode(self, rows: list[tuple[str, ...]]) -> tuple[dict[str, Any], list[Any]]:
        """Return the inputs of rows of one text or two as arrays, and the rows' `tokenizers.Encoding`."""
        strategy = "longest_first"
        if self.settings["task"] == "question-answering":
            strategy = "only_second" if self.settings["question_is_first"] else "only_first"
        length = self.settings["max_length"]
        if hasattr(self.tokenizer, "encode_batch"):
            if length is not None:
                self.tokenizer.enable_truncation(length, strategy=strategy)
            self.tokenizer.enable_padding(**self.settings["padding"])
            encodings = self.tokenizer.encode_batch([row if len(row) > 1 else row[0] for row in rows])
            names = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
            return {name: [getattr(one, own) for one in encodings] for name, own in names.items()}, encodings
        columns = [list(column) for column in zip(*rows, strict=True)]
        encoded = self.tokenizer(*columns, truncation=strategy, max_length=length, padding=True)
        return dict(encoded), encoded.encodings

    def run(self, inputs: Any) -> dict[str, Any]:
        """Run the graph and return its outputs by name."""
        given = {one.name: np.asarray(inputs[one.name], dtype=np.int64) for one in self.session.get_inputs()}
        names = [one.name for one in self.session.get_outputs()]
        return dict(zip(names, self.session.run(names, given), strict=True))

    def label(self, logits: Any) -> dict[str, float]:
        """Return the probability of each label, or the values of a regression."""
        labels, problem = self.settings["labels"], self.settings["problem_type"]
        if problem == "regression" or len(labels) == 1:
            return dict(zip(labels, logits.tolist(), strict=True))
        several = problem == "multi_label_classification"
        scores = 1 / (1 + np.exp(-logits)) if several else softmax(logits)
        return dict(zip(labels, scores.tolist(), strict=True))

    def answer(self, passage: str, encoding: Any, outputs: dict[str, Any], most_tokens: int = 30) -> dict[str, Any]:
        """Return the most probable span of a passage, with at most `most_tokens` tokens."""
        passage_index = 1 if self.settings["question_is_first"] else 0
        inside = np.array([index == passage_index for index in encoding.sequence_ids])
        scores = [np.where(inside, outputs[name][0], -np.inf) for name in ("start_logits", "end_logits")]
        first, last = (softmax(one) for one in scores)
        spans = np.triu(first[:, None] * last[None, :]) - np.triu(np.ones((len(first),) * 2), most_tokens)
        start, end = np.unravel_index(spans.argmax(), spans.shape)
        begin, stop = encoding.offsets[start][0], encoding.offsets[end][1]
        while stop < len(passage) and unicodedata.category(passage[stop]).startswith("M"):
            stop += 1  # combining marks, which uncased tokenizers drop
        return {"answer": passage[begin:stop], "start": begin, "end": stop, "score": float(spans[start, end])}

    def fill(self, encoding: Any, logits: Any, most: int = 5) -> list[list[list[Any]]]:
        """Return the `most` probable tokens for each mask, each with its probability."""
        mask = self.settings["mask_token"]
        masks = [place for place, token in enumerate(encoding.tokens) if token == mask]
        if not masks:
            raise ValueError(f"The text has no {mask}: put one where a token is to be predicted.")
        token_of = getattr(self.tokenizer, "id_to_token", None) or self.tokenizer.convert_ids_to_tokens
        filled = []
        for place in masks:
            scores = softmax(logits[place])
            best = scores.argsort()[::-1][:most]
            filled.append([[token_of(int(token)), float(scores[token])] for token in best])
        return filled

    def choose(self, prompt: str, *choices: str) -> dict[str, float]:
        """Return the probability of each choice."""
        inputs, _ = self.encode([(prompt, choice) for choice in choices])
        logits = self.run({name: [value] for name, value in inputs.items()})["logits"]
        return dict(zip(choices, softmax(logits[0]).tolist(), strict=True))


def load_tokenizer(folder: Path, settings: dict[str, Any]) -> Any:
    """Return a `tokenizers.Tokenizer`, or a tokenizer of transformers if the folder has the tokenizer's code."""
    if "padding" in settings:
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(folder / "tokenizer.json"))
    from transformers import AutoTokenizer, logging

    logging.set_verbosity_error()
    return AutoTokenizer.from_pretrained(folder, trust_remote_code=settings["trust_remote_code"])


def softmax(values: Any) -> Any:
    """Return probabilities from logits."""
    shares = np.exp(values - values.max())
    return shares / shares.sum()


if __name__ == "__main__":
    print(json.dumps(Model()(*sys.argv[1:]), ensure_ascii=False))
