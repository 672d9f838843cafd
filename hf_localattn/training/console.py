"""Logging of the scripts."""

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
    # Ours says in a few lines what it found in data and model: to be seen unless another level is asked for.
    own = logging.INFO if training_args.log_level == "passive" and training_args.should_log else level
    logging.getLogger("hf_localattn").setLevel(own)
    if training_args.disable_tqdm:
        datasets.disable_progress_bars()
        transformers.utils.logging.disable_progress_bar()
    datasets.utils.logging.set_verbosity(level)
    transformers.utils.logging.set_verbosity(level)
    transformers.utils.logging.enable_default_handler()
    transformers.utils.logging.enable_explicit_format()
