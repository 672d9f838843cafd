#!/usr/bin/env python
"""Fine-tune and evaluate a model for extractive question answering: SQuAD 1.1, SQuAD 2.0, or similar data."""

from collections.abc import Sequence

from hf_localattn.studies.command import run_script
from hf_localattn.tasks import QuestionAnswering


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run the script and return all metrics. `arguments` defaults to `sys.argv[1:]`."""
    return run_script(QuestionAnswering, arguments)


if __name__ == "__main__":
    main()
