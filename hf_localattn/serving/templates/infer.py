"""Answers of the ONNX model in this folder. Needs onnxruntime and tokenizers, and transformers for SLA and OA.

python infer.py TEXT [SECOND TEXT]        # labels of a text, of its tokens, tokens for its masks, or its features
python infer.py QUESTION CONTEXT          # question answering
python infer.py PROMPT CHOICE CHOICE ...  # multiple choice
python infer.py --file rows.jsonl         # an answer a line for each row
"""

import argparse
import csv
import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

FOLDER = Path(__file__).resolve().parent
COUNTS = {"question-answering": (2, 2), "multiple-choice": (2, 1000)}
"""Smallest and largest number of texts of a row; of other tasks 1 and 2."""


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
        """Return the answer for one row: a text or several, as the task needs them."""
        return next(self.answers([texts]))

    def answers(self, rows: Sequence[Sequence[str]], batch_size: int = 16) -> Iterator[Any]:
        """Yield the answer for each row of texts."""
        fewest, most = COUNTS.get(self.settings["task"], (1, 2))
        for index, row in enumerate(rows, start=1):
            is_filled = all(isinstance(text, str) and text.strip() for text in row)
            if not fewest <= len(row) <= most or not is_filled:
                raise ValueError(f"Row {index} has {len(row)} texts: give {fewest} to {most}, and none that is empty.")
        if self.settings["task"] == "multiple-choice":
            yield from (self.choose(*row) for row in rows)
            return
        for start in range(0, len(rows), batch_size):
            batch = rows[start : start + batch_size]
            inputs, encodings = self.encode(batch)
            outputs = self.run(inputs)
            for index, (row, encoding) in enumerate(zip(batch, encodings, strict=True)):
                yield self.answer(row, encoding, {name: values[index] for name, values in outputs.items()})

    def encode(self, rows: Sequence[Sequence[str]]) -> tuple[dict[str, Any], list[Any]]:
        """Return the inputs of rows of one text or two as arrays, and the rows' `tokenizers.Encoding`."""
        strategy = "longest_first"
        if self.settings["task"] == "question-answering":
            strategy = "only_second"
            if not self.settings["question_is_first"]:
                strategy = "only_first"
                rows = [(context, question) for question, context in rows]
        length = self.settings["max_length"]
        if hasattr(self.tokenizer, "encode_batch"):
            if length is not None:
                self.tokenizer.enable_truncation(length, strategy=strategy)
            self.tokenizer.enable_padding(**self.settings["padding"])
            encodings = self.tokenizer.encode_batch([tuple(row) if len(row) > 1 else row[0] for row in rows])
            names = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
            inputs = {name: [getattr(encoding, field) for encoding in encodings] for name, field in names.items()}
        else:
            columns = [list(column) for column in zip(*rows, strict=True)]
            encoded = self.tokenizer(
                *columns, truncation=strategy, max_length=length, padding=True, return_attention_mask=True
            )
            inputs = dict(encoded)
            encodings = encoded.encodings
        cut = sum(bool(encoding.overflowing) for encoding in encodings)
        if cut:
            print(f"warning: {cut} inputs are cut to the {length} tokens that the model takes.", file=sys.stderr)
        return inputs, encodings

    def run(self, inputs: Any) -> dict[str, Any]:
        """Run the graph and return its outputs by name."""
        arrays = {node.name: np.asarray(inputs[node.name], dtype=np.int64) for node in self.session.get_inputs()}
        names = [node.name for node in self.session.get_outputs()]
        return dict(zip(names, self.session.run(names, arrays), strict=True))

    def answer(self, row: Sequence[str], encoding: Any, outputs: dict[str, Any]) -> Any:
        """Return the answer for a row from the outputs for it."""
        task = self.settings["task"]
        if task == "question-answering":
            return self.span(row[1], encoding, outputs)
        if task == "text-classification":
            return self.label(outputs["logits"])
        if task == "fill-mask":
            return self.fill(encoding, outputs["logits"])
        real = np.flatnonzero(encoding.attention_mask)
        if task == "token-classification":
            best = outputs["logits"].argmax(-1)
            return [[encoding.tokens[token], self.settings["labels"][best[token]]] for token in real]
        return outputs["last_hidden_state"][real].mean(0).tolist()

    def label(self, logits: Any) -> dict[str, float]:
        """Return the probability of each label, or the values of a regression."""
        labels = self.settings["labels"]
        problem = self.settings["problem_type"]
        if problem == "regression" or len(labels) == 1:
            return dict(zip(labels, logits.tolist(), strict=True))
        several = problem == "multi_label_classification"
        scores = 1 / (1 + np.exp(-logits)) if several else softmax(logits)
        return dict(zip(labels, scores.tolist(), strict=True))

    def span(self, passage: str, encoding: Any, outputs: dict[str, Any], most_tokens: int = 30) -> dict[str, Any]:
        """Return the most probable span of a passage, with at most `most_tokens` tokens."""
        passage_index = 1 if self.settings["question_is_first"] else 0
        inside = np.array([index == passage_index for index in encoding.sequence_ids])
        starts = softmax(np.where(inside, outputs["start_logits"], -np.inf))
        ends = softmax(np.where(inside, outputs["end_logits"], -np.inf))
        length = len(inside)
        spans = np.triu(starts[:, None] * ends[None, :]) - np.triu(np.ones((length, length)), most_tokens)
        first, last = np.unravel_index(spans.argmax(), spans.shape)
        start, _ = encoding.offsets[first]
        _, end = encoding.offsets[last]
        while end < len(passage) and unicodedata.category(passage[end]).startswith("M"):
            end += 1  # combining marks, which uncased tokenizers drop
        text = passage[start:end]
        start += len(text) - len(text.lstrip())
        text = text.strip()
        return {"answer": text, "start": start, "end": start + len(text), "score": float(spans[first, last])}

    def fill(self, encoding: Any, logits: Any, most: int = 5) -> list[list[list[Any]]]:
        """Return the `most` probable tokens for each mask, each with its probability."""
        mask = self.settings["mask_token"]
        masks = [place for place, token in enumerate(encoding.tokens) if token == mask]
        if not masks:
            raise ValueError(f"A text has no {mask}: put one where a token is to be predicted.")
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


def read_rows(path: Path, columns: Sequence[str]) -> list[list[str]]:
    """Return the texts of each row of a file: a line of .txt, or the named columns of .jsonl or .csv."""
    if path.suffix not in (".txt", ".jsonl", ".csv"):
        raise ValueError(f"{path}: give a .txt, .jsonl or .csv file.")
    with path.open(encoding="utf-8-sig", newline="") as file:
        if path.suffix == ".txt":
            return [[line.strip()] for line in file]
        records: Iterable[Any] = csv.DictReader(file)
        if path.suffix == ".jsonl":
            records = (json.loads(line) for line in file if line.strip())
        rows = []
        for index, record in enumerate(records, start=1):
            missing = [column for column in columns if record.get(column) is None]
            if missing:
                raise ValueError(f"{path}, row {index}: has no {', '.join(missing)}; name its texts with --columns.")
            row: list[str] = []
            for column in columns:
                value = record[column]
                row += value if isinstance(value, list) else [value]  # several texts, such as choices
            rows.append(row)
    return rows


def main() -> None:
    """Print the answer for the texts of the command line, or an answer a line for the rows of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="the texts of one row")
    parser.add_argument("--file", type=Path, help=".txt (a text a line), .jsonl or .csv")
    parser.add_argument(
        "--columns", nargs="+", metavar="NAME", help="columns of the texts; default: question context, or text"
    )
    parser.add_argument("--batch_size", type=int, default=16, help="rows that are read at a time; default: 16")
    arguments = parser.parse_args()
    if bool(arguments.texts) == bool(arguments.file):
        parser.error("give either TEXT or --file")
    if arguments.batch_size < 1:
        parser.error("--batch_size must be at least 1")
    try:
        model = Model()
        rows = [arguments.texts]
        if arguments.file:
            is_reader = model.settings["task"] == "question-answering"
            usual = ["question", "context"] if is_reader else ["text"]
            rows = read_rows(arguments.file, arguments.columns or usual)
        for answer in model.answers(rows, arguments.batch_size):
            print(json.dumps(answer, ensure_ascii=False))
    except BrokenPipeError:  # `head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
