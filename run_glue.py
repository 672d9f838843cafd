#!/usr/bin/env python
"""Fine-tune and evaluate a model for text classification: GLUE, or other texts with classes or scores."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run the script and return all metrics. `arguments` defaults to `sys.argv[1:]`."""
    # Imported here, so that Ctrl-C during these imports ends the script with one line, too.
    from hf_localattn.cli.train_command import train

    return train("glue", sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    from hf_localattn_command import exit_on_interrupt

    with exit_on_interrupt(resumable=True):
        main()
