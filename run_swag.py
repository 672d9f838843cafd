#!/usr/bin/env python
"""Fine-tune and evaluate a model that chooses the right one of several texts (SWAG, or data like it)."""

from collections.abc import Sequence

from hf_localattn.tasks import MultipleChoice
from hf_localattn.training.command import run_script


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run the script with these arguments (default: the command line), and return all metrics."""
    return run_script(MultipleChoice, arguments)


if __name__ == "__main__":
    main()
