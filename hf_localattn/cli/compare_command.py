"""Arguments of `hf-localattn compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from hf_localattn.extras import require

RESULT = (
    "Output folder of a training script, also with --num_folds; a pattern in quotes for several seeds, such as"
    " 'runs/cool-*'; or a row of a reproduced table, TABLE.json:ROW or TABLE.json:ROW:TASK."
)


def compare(
    first: Annotated[str, Argument(metavar="RUN_A", help=RESULT)],
    second: Annotated[str, Argument(metavar="RUN_B", help="Result to compare it with, in the same form.")],
    metric: Annotated[
        list[str] | None,
        Option(
            metavar="NAME",
            help="A score, such as eval_f1; by default all of both results. Repeat the option for more.",
        ),
    ] = None,
    output: Annotated[
        Path | None, Option("-o", "--output", metavar="FILE", help="Also write the comparison as JSON.")
    ] = None,
) -> None:
    """Compare the scores of two finished results: difference, 95 % interval and corrected p-value.

    Runs are compared in pairs with the same seed or fold, by a paired t-test.

    Printed for each score: the means of A and B, their difference with its 95 % interval, and the p-value after Holm's
    correction for all scores with the number of pairs. Results without a common seed, on other data, or
    with a NaN score are refused.

    Example: `hf-localattn compare 'runs/cool-*' 'runs/bert-*' --metric eval_f1`
    """
    require("train", "`hf-localattn compare`")
    from hf_localattn.studies.compare import compare

    print(compare(first, second, metric or (), output))
