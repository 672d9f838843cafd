"""What a script prints while it runs."""

import logging
import sys

import datasets
import transformers

from hf_localattn.training.arguments import TrainingArguments


def set_up_logging(training_args: TrainingArguments) -> None:
    """Logs of this package, transformers and datasets to stdout, at the level the arguments ask for."""
    logging.basicConfig(
        format="%(asctime)s - %(levelname)s - %(name)s - %(message)s",
        datefmt="%m/%d/%Y %H:%M:%S",
        handlers=[logging.StreamHandler(sys.stdout)],
    )
    level = training_args.get_process_log_level()
    logging.getLogger("hf_localattn").setLevel(level)
    datasets.utils.logging.set_verbosity(level)
    transformers.utils.logging.set_verbosity(level)
    transformers.utils.logging.enable_default_handler()
    transformers.utils.logging.enable_explicit_format()
