"""Compare the answers of the pipeline "question-answering" with transformers 4.57, the last version with one.

    python scripts/pipeline_parity.py READER QUESTIONS --peer PYTHON

PYTHON is an interpreter with transformers 4.57 and the same torch. Both run this file on the same checkpoint and
questions.

Last run: 4.57.6 and 5.23.0, 200 questions of SQuAD, MiniLM fine-tuned on 350 different questions. All answers,
starts and ends are equal with each setting, and scores differ by at most 2e-8 (by 3e-7 on 80 of the questions with
logits multiplied by six).
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "top_k": {"top_k": 5},
    "max_seq_len, doc_stride": {"max_seq_len": 96, "doc_stride": 24, "top_k": 3},
    "max_seq_len": {"max_seq_len": 128},
    "max_answer_len": {"max_answer_len": 3},
    "handle_impossible_answer": {"handle_impossible_answer": True, "top_k": 2},
    "align_to_words": {"align_to_words": False, "top_k": 3},
    "padding": {"padding": "max_length", "max_seq_len": 160},
    "all": {
        "max_seq_len": 128,
        "doc_stride": 32,
        "max_answer_len": 8,
        "handle_impossible_answer": True,
        "align_to_words": False,
        "top_k": 4,
        "batch_size": 8,
    },
}
CUT = 6
"""Length of truncated questions in tokens. 4.57 truncates only with slow tokenizers, so its input is truncated."""


def main() -> None:
    """Print for each setting the number of questions with equal answers, and the largest difference of scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reader", help="folder of a stock checkpoint")
    parser.add_argument("questions", type=Path, help="file of rows with question and context, one a line")
    parser.add_argument("--number", type=int, default=200, help="number of questions, spread over the file")
    parser.add_argument("--peer", help="Python with transformers 4.57")
    parser.add_argument("--output", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    rows = [json.loads(line) for line in arguments.questions.read_text(encoding="utf-8").splitlines()]
    rows = rows[:: max(1, len(rows) // arguments.number)][: arguments.number]
    if arguments.output:
        arguments.output.write_text(json.dumps(answer(arguments.reader, rows)))
        return
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder) / name for name in ("ours.json", "theirs.json")]
        words = [__file__, arguments.reader, str(arguments.questions), "--number", str(arguments.number)]
        running = [
            subprocess.Popen([python, *words, "--output", output], env={**os.environ, "PYTHONWARNINGS": "ignore"})
            for python, output in zip((sys.executable, arguments.peer), outputs, strict=True)
        ]
        codes = [process.wait() for process in running]
        if any(codes):
            sys.exit("One of the two runs has failed; see its error above.")
        given = [json.loads(output.read_text()) for output in outputs]
    for name, ours in given[0].items():
        print(f"{name:<28} {compare(ours, given[1][name])}")


def answer(checkpoint: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the answers to all questions under each setting."""
    import transformers

    is_ours = int(transformers.__version__.partition(".")[0]) > 4
    if is_ours:
        import hf_localattn  # noqa: F401 (registers the pipeline)
    reader = transformers.pipeline("question-answering", model=checkpoint, device="cpu")
    reader.model.forward = remembering(reader.model.forward)
    inputs = {name: [row[name] for row in rows] for name in ("question", "context")}
    given = {name: reader(**inputs, **settings) for name, settings in SETTINGS.items()}
    inputs["question"] = [question if is_ours else cut(question, reader.tokenizer) for question in inputs["question"]]
    given["max_question_len"] = reader(**inputs, **({"max_question_len": CUT} if is_ours else {}))
    return given


def remembering(forward: Any) -> Any:
    """Cache the outputs of a model's `forward`. Most settings have the same inputs."""
    known: dict[Any, Any] = {}

    @functools.wraps(forward)
    def remembered(input_ids: Any, **inputs: Any) -> Any:
        key = tuple(input_ids.shape), input_ids.numpy().tobytes()
        if key not in known:
            known[key] = forward(input_ids=input_ids, **inputs)
        return known[key]

    return remembered


def cut(question: str, tokenizer: Any) -> str:
    """Return the first tokens of a question."""
    offsets = tokenizer(question, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return question[: offsets[:CUT][-1][1]]


def compare(ours: list[Any], others: list[Any]) -> str:
    """Return a summary of equal answers and of differences of scores."""
    equal, largest = 0, 0.0
    for one, other in zip(ours, others, strict=True):
        one, other = ([side] if isinstance(side, dict) else side for side in (one, other))
        places = [[(best["answer"], best["start"], best["end"]) for best in side] for side in (one, other)]
        if places[0] == places[1]:
            equal += 1
            differences = [abs(mine["score"] - theirs["score"]) for mine, theirs in zip(one, other, strict=True)]
            largest = max(largest, *differences)
        else:
            print(json.dumps([one, other], ensure_ascii=False))
    return f"{equal} of {len(ours)} questions equal, scores to {largest:.1e}"


if __name__ == "__main__":
    main()
