#!/usr/bin/env python
"""Fine-tune and evaluate a model for extractive question answering (SQuAD 1.1, SQuAD 2.0, or files like them)."""

from collections.abc import Sequence

from hf_localattn.tasks import QuestionAnswering
from hf_localattn.training.command import run_script


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run the script with these arguments (default: the command line), and return all metrics."""
    return run_script(QuestionAnswering, arguments)


if __name__ == "__main__":
    main()
