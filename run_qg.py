#!/usr/bin/env python
"""Fine-tune and evaluate a model that asks the question to a passage and an answer (SQuAD, or files like it)."""

from collections.abc import Sequence

from hf_localattn.tasks import QuestionGeneration
from hf_localattn.training.command import run_script


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run the script with these arguments (default: the command line), and return all metrics."""
    return run_script(QuestionGeneration, arguments)


if __name__ == "__main__":
    main()
