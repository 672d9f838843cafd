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
WINDOW = 384
STRIDE = 128
MOST_QUESTION_TOKENS = 64
FEWEST_NEW_TOKENS = 16
MOST_ANSWER_TOKENS = 15
MOST_SPANS = 12  # whose scores are added if they are the same words
"""Defaults of the pipeline "question-answering"."""

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
            if self.settings["task"] == "question-answering":
                yield from self.read(batch, batch_size)
                continue
            inputs, encodings = self.encode(batch)
            outputs = self.run(inputs)
            for index, (row, encoding) in enumerate(zip(batch, encodings, strict=True)):
                yield self.answer(row, encoding, {name: values[index] for name, values in outputs.items()})

    def encode(self, rows: Sequence[Sequence[str]]) -> tuple[dict[str, Any], list[Any]]:
        """Return the inputs of rows of one text or two as arrays, and the rows' `tokenizers.Encoding`."""
        length = self.settings["max_length"]
        if hasattr(self.tokenizer, "encode_batch"):
            if length is not None:
                self.tokenizer.enable_truncation(length)
            self.tokenizer.enable_padding(**self.settings["padding"])
            encodings = self.tokenizer.encode_batch([tuple(row) if len(row) > 1 else row[0] for row in rows])
            of_row = [self.inputs_of(encoding) for encoding in encodings]
            inputs = {name: [row[name] for row in of_row] for name in of_row[0]}
        else:
            columns = [list(column) for column in zip(*rows, strict=True)]
            encoded = self.tokenizer(
                *columns, truncation="longest_first", max_length=length, padding=True, return_attention_mask=True
            )
            inputs = dict(encoded)
            encodings = encoded.encodings
        cut = sum(bool(encoding.overflowing) for encoding in encodings)
        if cut:
            print(f"warning: {cut} inputs are cut to the {length} tokens that the model takes.", file=sys.stderr)
        return inputs, encodings

    def inputs_of(self, encoding: Any) -> dict[str, list[int]]:
        """Return the inputs of a row that `tokenizers` has encoded."""
        segments = encoding.type_ids if self.settings["has_segments"] else [0] * len(encoding.ids)
        return {"input_ids": encoding.ids, "attention_mask": encoding.attention_mask, "token_type_ids": segments}

    def run(self, inputs: Any) -> dict[str, Any]:
        """Run the graph and return its outputs by name."""
        arrays = {node.name: np.asarray(inputs[node.name], dtype=np.int64) for node in self.session.get_inputs()}
        names = [node.name for node in self.session.get_outputs()]
        return dict(zip(names, self.session.run(names, arrays), strict=True))

    def answer(self, row: Sequence[str], encoding: Any, outputs: dict[str, Any]) -> Any:
        """Return the answer for a row from the outputs for it."""
        task = self.settings["task"]
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

    def read(self, rows: Sequence[Sequence[str]], batch_size: int) -> Iterator[dict[str, Any]]:
        """Yield the best answer to each question, as the pipeline "question-answering" gives it.

        `no_answer` is the probability that a passage has no answer, 0 for a model that cannot tell.
        """
        windows = [(row, *window) for row, texts in enumerate(rows) for window in self.windows(*texts)]
        answers: list[dict[str, dict[str, Any]]] = [{} for _ in rows]
        no_answer = [1.0] * len(rows)
        for start in range(0, len(windows), batch_size):
            batch = windows[start : start + batch_size]
            outputs = self.run(self.pad([inputs for _, inputs, _ in batch]))
            for index, (row, inputs, encoding) in enumerate(batch):
                size = len(inputs["input_ids"])
                tokens = slice(size) if self.settings["question_is_first"] else slice(-size, None)
                starts, ends = (outputs[name][index][tokens] for name in ("start_logits", "end_logits"))
                none, spans = self.spans(rows[row][1], encoding, starts, ends)
                no_answer[row] = min(no_answer[row], none)
                for score, first, last in spans:
                    text = rows[row][1][first:last]
                    answer = {"answer": text, "start": first, "end": last, "score": 0.0}
                    answers[row].setdefault(text.lower(), answer)["score"] += score
        for of_row, none in zip(answers, no_answer, strict=True):
            yield {**max(of_row.values(), key=lambda answer: answer["score"]), "no_answer": none}

    def windows(self, question: str, passage: str) -> list[tuple[dict[str, list[int]], Any]]:
        """Return the inputs of the windows of a passage, beside the question, and their `tokenizers.Encoding`."""
        is_raw = hasattr(self.tokenizer, "encode_batch")
        size = min(WINDOW, self.settings["max_length"] or WINDOW)
        if is_raw:
            self.tokenizer.no_truncation()
            self.tokenizer.no_padding()
            offsets = self.tokenizer.encode(question, add_special_tokens=False).offsets
            room = size - self.tokenizer.num_special_tokens_to_add(is_pair=True)
        else:
            encoded = self.tokenizer(question, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
            offsets = encoded["offset_mapping"]
            room = size - self.tokenizer.num_special_tokens_to_add(pair=True)
        most = min(MOST_QUESTION_TOKENS, room - min(FEWEST_NEW_TOKENS, room // 2))
        if len(offsets) > most:
            print(f"warning: a question of {len(offsets)} tokens is cut to {most}: {question[:60]!r}", file=sys.stderr)
            question = question[: offsets[most - 1][1]]
        room -= min(len(offsets), most)
        stride = min(size // 2, STRIDE)
        stride = stride if stride < room else room // 2
        is_first = self.settings["question_is_first"]
        texts = (question, passage) if is_first else (passage, question)
        strategy = "only_second" if is_first else "only_first"
        if is_raw:
            self.tokenizer.enable_truncation(size, stride=stride, strategy=strategy)
            encoding = self.tokenizer.encode(*texts)
            return [(self.inputs_of(part), part) for part in (encoding, *encoding.overflowing)]
        encoded = self.tokenizer(
            *texts,
            truncation=strategy,
            max_length=size,
            stride=stride,
            return_overflowing_tokens=True,
            return_attention_mask=True,
        )
        encoded.pop("overflow_to_sample_mapping")
        parts = enumerate(encoded.encodings)
        return [({name: values[index] for name, values in encoded.items()}, part) for index, part in parts]

    def pad(self, inputs: Sequence[dict[str, list[int]]]) -> Any:
        """Return the inputs of a batch, padded to the longest one."""
        if not hasattr(self.tokenizer, "encode_batch"):
            return self.tokenizer.pad(list(inputs), return_tensors="np", verbose=False)
        padding = self.settings["padding"]
        fill = {"input_ids": padding.get("pad_id", 0), "token_type_ids": padding.get("pad_type_id", 0)}
        length = max(len(row["input_ids"]) for row in inputs)
        padded: dict[str, list[list[int]]] = {name: [] for name in inputs[0]}
        for row in inputs:
            for name, values in row.items():
                pads = [fill.get(name, 0)] * (length - len(values))
                is_left = padding.get("direction") == "left"
                padded[name].append([*pads, *values] if is_left else [*values, *pads])
        return padded

    def spans(self, passage: str, encoding: Any, starts: Any, ends: Any) -> tuple[float, list[tuple[float, int, int]]]:
        """Return the probability of "no answer" in a window, and the most probable spans of whole words.

        A span is a probability and the characters [start, end) in the passage. Probabilities are over the tokens of
        the passage and the token that stands for "no answer".
        """
        passage_index = 1 if self.settings["question_is_first"] else 0
        inside = np.array([index == passage_index for index in encoding.sequence_ids])
        if not inside.any():
            raise ValueError(f"The passage {passage[:60]!r} has no token that the model knows: give it some text.")
        competing = inside.copy()
        specials = [place for place, index in enumerate(encoding.sequence_ids) if index is None]
        places = (p for token in self.settings["no_answer_tokens"] for p in specials if encoding.ids[p] == token)
        none = next(places, None)
        if none is not None:
            competing[none] = True
        of_start, of_end = (softmax(np.where(competing, logits, -np.inf)) for logits in (starts, ends))
        probabilities = np.where(inside[:, None] & inside[None, :], of_start[:, None] * of_end[None, :], -1.0)
        too_long = np.triu(np.ones_like(probabilities), MOST_ANSWER_TOKENS) > 0
        probabilities[too_long | (np.tril(np.ones_like(probabilities), -1) > 0)] = -1.0
        spans: list[tuple[float, int, int]] = []
        for rank, pair in enumerate(np.argsort(-probabilities, axis=None, kind="stable")):
            first, last = np.unravel_index(pair, probabilities.shape)
            if probabilities[first, last] < 0 or (rank >= MOST_SPANS and spans):
                break
            start, end = self.characters(passage, encoding, int(first), int(last))
            if end > start:
                spans.append((float(probabilities[first, last]), start, end))
        return 0.0 if none is None else float(of_start[none] * of_end[none]), spans

    def characters(self, passage: str, encoding: Any, first: int, last: int) -> tuple[int, int]:
        """Return the characters [start, end) of a span of tokens: whole words without blanks around them."""
        passage_index = 1 if self.settings["question_is_first"] else 0
        words = [encoding.token_to_word(token) for token in (first, last)]
        if None not in words:
            first, _ = encoding.word_to_tokens(words[0], passage_index)
            last = encoding.word_to_tokens(words[1], passage_index)[1] - 1
        start, _ = encoding.offsets[first]
        begin, end = encoding.offsets[last]
        while begin < end < len(passage) and unicodedata.category(passage[end]).startswith("M"):
            end += 1  # combining marks, which uncased tokenizers drop
        text = passage[start:end]
        return start + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())

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
    shares = np.exp(np.asarray(values, float) - values.max())
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
