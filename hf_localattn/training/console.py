"""Logging of the scripts."""

import logging
import sys

import datasets
import transformers

from hf_localattn.training.arguments import TrainingArguments


def set_up_logging(training_args: TrainingArguments) -> None:
    """Log this package, transformers and datasets to stdout, at the level in the arguments."""
    logging.basicConfig(
        format="%(asctime)s - %(levelname)s - %(name)s - %(message)s",
        datefmt="%m/%d/%Y %H:%M:%S",
        handlers=[logging.StreamHandler(sys.stdout)],
    )
    level = training_args.get_process_log_level()
    # Show INFO messages of this package unless a log level is set.
    package_level = logging.INFO if training_args.log_level == "passive" and training_args.should_log else level
    logging.getLogger("hf_localattn").setLevel(package_level)
    if training_args.disable_tqdm:
        datasets.disable_progress_bars()
        transformers.utils.logging.disable_progress_bar()
    datasets.utils.logging.set_verbosity(level)
    transformers.utils.logging.set_verbosity(level)
    transformers.utils.logging.enable_default_handler()
    transformers.utils.logging.enable_explicit_format()
