#!/usr/bin/env python
"""Fine-tune and evaluate a model for question generation from a passage and an answer: SQuAD, or similar data."""

from collections.abc import Sequence

from hf_localattn.studies.command import run_script
from hf_localattn.tasks import QuestionGeneration


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run the script and return all metrics. `arguments` defaults to `sys.argv[1:]`."""
    return run_script(QuestionGeneration, arguments)


if __name__ == "__main__":
    main()
