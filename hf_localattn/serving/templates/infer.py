"""Answers of the ONNX model in this folder. Needs transformers, numpy and onnxruntime.

python infer.py TEXT [SECOND TEXT]        # labels of a text, of its tokens, tokens for its masks, or its features
python infer.py QUESTION CONTEXT          # question answering
python infer.py PROMPT CHOICE CHOICE ...  # multiple choice
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from transformers import AutoTokenizer

FOLDER = Path(__file__).resolve().parent


class Model:
    """The graph and the tokenizer of a folder that `hf-localattn export` has written."""

    def __init__(self, folder: Path = FOLDER):
        self.settings = json.loads((folder / "export.json").read_text(encoding="utf-8"))
        # If true, the tokenizer's code is in this folder.
        trust = self.settings["trust_remote_code"]
        self.tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust)
        self.session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])

    def __call__(self, *texts: str) -> Any:
        """Return the answer for one text or several texts, as the task needs them."""
        task = self.settings["task"]
        if task in ("question-answering", "multiple-choice") and len(texts) < 2:
            raise ValueError(
                f"{task} needs at least two texts, and got {len(texts)}: see the first lines of infer.py."
            )
        if not texts or (task != "multiple-choice" and len(texts) > 2):
            raise ValueError(f"Give one text or two texts, not {len(texts)}.")
        if task == "multiple-choice":
            return self.choose(*texts)
        shorten = "only_second" if task == "question-answering" else True
        encoded = self.encode(*([text] for text in texts), truncation=shorten)
        outputs = self.run(encoded)
        if task == "question-answering":
            return self.answer(texts[1], encoded, outputs)
        if task == "text-classification":
            return self.label(outputs["logits"][0])
        if task == "token-classification":
            best = outputs["logits"][0].argmax(-1)
            tokens = encoded.tokens(0)
            return [[token, self.settings["labels"][label]] for token, label in zip(tokens, best, strict=True)]
        if task == "fill-mask":
            return self.fill(encoded["input_ids"][0], outputs["logits"][0])
        return outputs["last_hidden_state"][0].mean(0).tolist()

    def encode(self, *texts: Any, **options: Any) -> Any:
        """Tokenize texts, and return the inputs as arrays."""
        return self.tokenizer(
            *texts, max_length=self.settings["max_length"], padding=True, return_tensors="np", **options
        )

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

    def answer(self, passage: str, encoded: Any, outputs: dict[str, Any], most_tokens: int = 30) -> dict[str, Any]:
        """Return the most probable span of a passage, with at most `most_tokens` tokens."""
        inside = np.array([number == 1 for number in encoded.sequence_ids(0)])
        scores = [np.where(inside, outputs[name][0], -np.inf) for name in ("start_logits", "end_logits")]
        first, last = (softmax(one) for one in scores)
        spans = np.triu(first[:, None] * last[None, :]) - np.triu(np.ones((len(first),) * 2), most_tokens)
        start, end = np.unravel_index(spans.argmax(), spans.shape)
        begin, stop = encoded.token_to_chars(0, start).start, encoded.token_to_chars(0, end).end
        return {"answer": passage[begin:stop], "start": begin, "end": stop, "score": float(spans[start, end])}

    def fill(self, ids: Any, logits: Any, most: int = 5) -> list[list[list[Any]]]:
        """Return the `most` probable tokens for each mask, each with its probability."""
        masks = np.flatnonzero(ids == self.tokenizer.mask_token_id)
        if not len(masks):
            raise ValueError(f"The text has no {self.tokenizer.mask_token}: put one where a token is to be predicted.")
        filled = []
        for place in masks:
            scores = softmax(logits[place])
            best = scores.argsort()[::-1][:most]
            tokens = self.tokenizer.convert_ids_to_tokens(best)
            filled.append([list(pair) for pair in zip(tokens, scores[best].tolist(), strict=True)])
        return filled

    def choose(self, prompt: str, *choices: str) -> dict[str, float]:
        """Return the probability of each choice."""
        encoded = self.encode([prompt] * len(choices), list(choices), truncation=True)
        logits = self.run({name: value[None] for name, value in encoded.items()})["logits"]
        return dict(zip(choices, softmax(logits[0]).tolist(), strict=True))


def softmax(values: Any) -> Any:
    """Return probabilities from logits."""
    shares = np.exp(values - values.max())
    return shares / shares.sum()


if __name__ == "__main__":
    print(json.dumps(Model()(*sys.argv[1:]), ensure_ascii=False))
