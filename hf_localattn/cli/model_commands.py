"""Commands that show, ask, export and compare trained models."""

from __future__ import annotations

import json
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from typer import Argument, Context, Option

from hf_localattn.cli.network import look_for_hub
from hf_localattn.errors import printable
from hf_localattn.extras import require
from hf_localattn.limits import MOST_CHARACTERS
from hf_localattn.names import find_files, read_config, resolve_backbone
from hf_localattn.parsing import parse_assignments

# Commands import their functions when they run, because importing torch and transformers would slow down `--help`.

Settings = Annotated[
    list[str] | None,
    Option(
        "--config",
        metavar="NAME=VALUE",
        help="A setting of the tokenizer, such as parser=FOLDER for SLA. Repeat the option for more.",
    ),
]

PICTURES = (".png", ".svg", ".pdf")
"""Endings of the files that matplotlib writes."""

Kind = Literal["auto", "self", "local", "gates", "tokens", "features", "influence"]


def _layers(text: str) -> list[int]:
    return [int(index) for index in text.split(",")]


def inspect(
    checkpoint: Annotated[
        str, Argument(metavar="CHECKPOINT", help="Hub id or folder of a model of a family, or of any encoder.")
    ],
    output: Annotated[
        Path,
        Option(
            "-o",
            "--output",
            metavar="FILE",
            dir_okay=False,
            help="Output file, which is overwritten: .png, .svg, .pdf, .html or .json.",
        ),
    ],
    texts: Annotated[
        list[str] | None, Argument(metavar="TEXT", help="Input texts. For OA write [CUE] before each cue word.")
    ] = None,
    pair: Annotated[
        str | None, Option(metavar="TEXT", help="Second text of a pair, such as the passage of a question.")
    ] = None,
    compare: Annotated[
        str | None, Option(metavar="OTHER", help="Another checkpoint to compare with the first one.")
    ] = None,
    file: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="File of texts, in place of TEXT: one per line (.txt), a column of a table (.csv, .tsv, .json,"
            " .jsonl), or sentences of words (.conll, .conllu, .xml; also .tsv and .json if the model labels words).",
        ),
    ] = None,
    max_samples: Annotated[
        int | None, Option("--max_samples", min=1, metavar="N", help="Use only the first N rows of --file.")
    ] = None,
    text_column_names: Annotated[
        str | None,
        Option(
            "--text_column_names",
            metavar="NAMES",
            help="Text columns of --file: one, or two separated by a comma.",
        ),
    ] = None,
    kind: Annotated[
        Kind,
        Option(
            help="auto: the mechanism of the model's family; self: map of the encoder's self-attention; local: map of"
            " the local attention; gates: SLA's mean gate of each layer; tokens: SAM's token weights; features: SAM's"
            " feature weights, and those that delta removed; influence:"
            " by how much the score of the prediction falls without a token."
        ),
    ] = "auto",
    layers: Annotated[
        Any,
        Option(
            metavar="N,N,...",
            parser=_layers,
            help="Layers to average a map over, from 0; by default all.",
        ),
    ] = None,
    special_tokens: Annotated[
        bool, Option("--special_tokens", help="Show special tokens such as [CLS] and [SEP], too.")
    ] = False,
    trust_remote_code: Annotated[
        bool, Option("--trust_remote_code", help="Run the Python code of the checkpoints.")
    ] = False,
    config: Settings = None,
) -> None:
    """Show attention maps, gates or token weights of a checkpoint, alone or next to those of another one."""
    if bool(texts) == bool(file):
        raise ValueError("Give either TEXT or --file.")
    if pair is not None and len(texts or ()) != 1:
        raise ValueError("--pair needs exactly one TEXT, the first text of the pair.")
    if compare == checkpoint:
        raise ValueError(f"--compare {compare} is the same checkpoint: give another one.")
    if layers is not None and kind in ("gates", "tokens", "features", "influence"):
        raise ValueError(f"--layers cannot be used with --kind {kind}: it selects the layers of an attention map.")
    if output.suffix not in (*PICTURES, ".html", ".json"):
        raise ValueError(f"-o {output}: choose a file that ends in one of {', '.join(PICTURES)}, .html, .json.")
    if kind == "features" and output.suffix == ".html":
        raise ValueError(f"-o {output}: --kind features has no page; choose a picture or .json.")
    if output.suffix in PICTURES:
        require("plot", f"-o {output}")
    if file is not None:
        require("train", "--file")
        file = find_files(file)
    for name in filter(None, (checkpoint, compare)):
        resolve_backbone(name)
    look_for_hub(checkpoint, compare)
    if file is not None:
        _hide_bars()
    from hf_localattn.inspection.command import run

    rows: dict[str, Any] = {"file": file, "max_samples": max_samples, "text_column_names": text_column_names}
    shown: dict[str, Any] = {"kind": kind, "layers": layers, "special_tokens": special_tokens}
    trust: dict[str, Any] = {"trust_remote_code": trust_remote_code, "settings": parse_assignments(config or ())}
    run(checkpoint, output, texts or (), pair=pair, compare=compare, **rows, **shown, **trust)


def demo(
    checkpoint: Annotated[
        str | None,
        Argument(
            metavar="CHECKPOINT",
            help="Hub id or folder of a model with a head, of any family or of none; by default the package's own"
            " model of negation.",
        ),
    ] = None,
    host: Annotated[
        str, Option(metavar="ADDRESS", help="Address to listen on; 0.0.0.0 for all of this machine's.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None, Option(min=1, max=65535, metavar="N", help="Port; by default the first free one from 7860.")
    ] = None,
    max_characters: Annotated[
        int,
        Option("--max_characters", min=1, metavar="N", help="Characters of a request; more are refused at once."),
    ] = MOST_CHARACTERS,
    share: Annotated[bool, Option("--share", help="Also create a public address, on a server of gradio.")] = False,
    trust_remote_code: Annotated[
        bool, Option("--trust_remote_code", help="Run the Python code of the checkpoint.")
    ] = False,
    config: Settings = None,
) -> None:
    """Open a page on this machine that asks a checkpoint.

    It finds answers, negation, classes, labels of words, masked words, choices, or generates text. The page shows the
    attention of the model, too. It needs gradio (`pip install 'hf_localattn[demo]'`).
    """
    require("demo", "`hf-localattn demo`")
    if checkpoint is not None:
        resolve_backbone(checkpoint)
        look_for_hub(checkpoint)
    from hf_localattn.serving.demo import run

    settings = parse_assignments(config or ())
    server: dict[str, Any] = {"host": host, "port": port, "share": share, "most_characters": max_characters}
    run(checkpoint, trust_remote_code=trust_remote_code, settings=settings, **server)


def export(
    context: Context,
    checkpoint: Annotated[str, Argument(metavar="CHECKPOINT", help="Folder of a trained model.")],
    output_dir: Annotated[str, Argument(metavar="OUT", help="Output folder, which must be new or empty.")],
    quantize: Annotated[
        Literal["int8", "int8-weights"] | None,
        Option(help="A graph of a quarter of the size: the faster one, or the one with more exact outputs."),
    ] = None,
    config: Settings = None,
    validation_file: Annotated[
        str | None,
        Option(
            "--validation_file",
            metavar="FILE",
            help="Labeled rows, on which predictions and scores of the graph are compared with the checkpoint's."
            " Options of the training script that say how to read them, such as --label_column_name, may follow.",
        ),
    ] = None,
) -> None:
    """Write a checkpoint as an ONNX graph for any batch size and length, with its tokenizer and a program.

    The graph is compared with the model before it is written. `python OUT/infer.py TEXT...` runs it with onnxruntime.
    """
    require("onnx", "`hf-localattn export`")
    if context.args and validation_file is None:
        option = context.args[0]
        nearest = get_close_matches(
            option, [name for parameter in context.command.params for name in parameter.opts], 1
        )
        remedy = f"Did you mean {nearest[0]}?" if nearest else "Options of a training script need --validation_file."
        raise ValueError(f"Unknown option {option}. {remedy}")
    content = read_config(checkpoint)
    prepared = None
    with TemporaryDirectory() as scratch:
        if validation_file is not None:
            require("train", "--validation_file")
            words = ["--validation_file", find_files(validation_file), *context.args]
            _hide_bars()
            from hf_localattn.serving.validation import compare_with_checkpoint, prepare_evaluation

            prepared = prepare_evaluation(checkpoint, content, words, scratch)
        from hf_localattn.graphs import EXPORT_SETTINGS
        from hf_localattn.installed.exported import OnnxModel
        from hf_localattn.serving.export import ARGUMENTS, export_checkpoint

        folder = export_checkpoint(checkpoint, output_dir, quantize=quantize, settings=parse_assignments(config or ()))
        if prepared is not None:
            agreement = compare_with_checkpoint(prepared, OnnxModel.from_pretrained(folder))
            print(printable(agreement.report()))
        elif quantize is not None:
            print("--validation_file FILE compares predictions and scores of the graph with the checkpoint's.")
    task = json.loads((folder / EXPORT_SETTINGS).read_text(encoding="utf-8"))["task"]
    print(f"Wrote {folder}. Run it with: python {folder}/infer.py {ARGUMENTS.get(task, 'TEXT')}")


def _hide_bars() -> None:
    """Read rows without a progress bar for each step."""
    import datasets

    datasets.disable_progress_bars()


RESULT = (
    "Output folder of a training script, also with --seeds or --num_folds; a pattern in quotes for several seeds, such"
    " as 'runs/cool-*'; or a row of a reproduced table, TABLE.json:ROW or TABLE.json:ROW:TASK."
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
    examples: Annotated[
        str | None,
        Option(
            metavar="ROWS",
            help="Read ROWS, a file of labeled rows, and list those on which two readers or classifiers differ, by the"
            " predictions in RUN_A and RUN_B.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Also write the comparison: .json, .csv, .tex (LaTeX), or a plot as .png, .svg or .pdf; or"
            " examples as .html.",
        ),
    ] = None,
) -> None:
    """Compare the scores of two finished results: difference, 95 % interval, corrected p-value and effect size.

    Runs are compared in pairs with the same seed or fold, by a paired t-test. Runs that are not finished are left out.

    Printed for each score: the means of A and B, their difference with its 95 % interval, the p-value after Holm's
    correction for all scores with the number of pairs, and Cohen's d. Results without a common seed, on other data, or
    with a NaN score are refused.

    Example: `hf-localattn compare 'runs/cool-*' 'runs/bert-*' --metric eval_f1`
    """
    if examples is not None:
        require("train", "--examples")
        if metric:
            raise ValueError("--metric is for scores. Leave it out with --examples.")
        _hide_bars()
        from hf_localattn.studies.examples import compare_examples

        text = compare_examples(first, second, examples, output)
    else:
        from hf_localattn.studies.compare import compare

        text = compare(first, second, metric or (), output)
    print(printable(text))
    if output is not None:
        print(f"Wrote {output}.")
