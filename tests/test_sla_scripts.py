"""SLA through the command, the scripts and the pipelines, as a user runs it, with a parser of a few sentences."""

import json
import re

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from hf_localattn import SlaBertTokenizer
from hf_localattn.cli import main as command
from hf_localattn.hub import init_checkpoint
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import reading_comprehension, tiny_backbone
from tests.models.tiny import tiny_model
from tests.parsers import tiny_parser
from tests.qa_helpers import write_jsonl
from tests.script_helpers import ROOT, assert_one_line_error, load_main

SAMPLES = ROOT / "hf_localattn" / "resources" / "samples"
READING = reading_comprehension()
TASKS = {
    "run_glue": (SAMPLES / "reviews.csv", "eval_accuracy"),
    "run_ner": (SAMPLES / "names.conll", "eval_f1"),
    "run_swag": (SAMPLES / "endings.csv", "eval_accuracy"),
    "run_qa": (READING["validation"], "eval_f1"),
}


def options(file, output_dir, *fields, backbone="tiny"):
    work = ["--do_train", "--do_eval", "--max_steps", "2", "--max_train_samples", "6", "--max_eval_samples", "4"]
    common = ["--max_seq_length", "48", "--per_device_train_batch_size", "2", "--use_cpu", "--disable_tqdm", "true"]
    model = ["--family", "sla-bert", "--backbone", str(backbone)]
    settings = ["--local_config", *fields] if fields else []
    where = ["--train_file", str(file), "--validation_file", str(file), "--output_dir", str(output_dir)]
    return [*model, *where, *work, *common, *settings]


@pytest.mark.parametrize("script", TASKS)
def test_every_script_trains_it(script, tmp_path):
    file, score = TASKS[script]
    stride = ["--doc_stride", "16"] if script == "run_qa" else []
    fields = [f"parser={tiny_parser()}", "syntax_threshold=2"]
    metrics = load_main(script)([*options(file, tmp_path / "out", *fields), *stride])
    assert score in metrics
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert type(tokenizer) is SlaBertTokenizer
    assert tokenizer.parser == tiny_parser()
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["syntax_threshold"] == 2
    assert "parser" not in config


@pytest.mark.parametrize(("file", "score"), [("errors.tsv", "eval_f0_5"), ("errors.xml", "eval_detection_f1")])
def test_errors_are_detected_in_english_and_in_chinese(file, score, tmp_path):
    parser = tiny_parser("zh" if file.endswith("xml") else "en")
    metrics = load_main("run_ner")(options(SAMPLES / file, tmp_path / "out", f"parser={parser}"))
    assert score in metrics


@pytest.mark.parametrize("kind", ["window", "none"])
def test_what_needs_no_parse_needs_no_parser(kind, tmp_path):
    metrics = load_main("run_glue")(options(SAMPLES / "reviews.csv", tmp_path / "out", f"local_attention={kind}"))
    assert "eval_accuracy" in metrics
    assert AutoTokenizer.from_pretrained(tmp_path / "out").parser is None


def test_pairs(tmp_path):
    rows = [{"sentence1": "The cat sleeps.", "sentence2": "It rains.", "label": n % 2} for n in range(4)]
    write_jsonl(tmp_path / "pairs.jsonl", rows)
    arguments = options(tmp_path / "pairs.jsonl", tmp_path / "out", f"parser={tiny_parser()}")
    assert "eval_accuracy" in load_main("run_glue")([*arguments, "--task_name", "rte"])


def test_a_run_goes_on_from_its_own_checkpoint(tmp_path):
    """The tokenizer comes from the folder: no field has to be given again, but for a parser that is a folder."""
    parser = f"parser={tiny_parser()}"
    first = options(SAMPLES / "reviews.csv", tmp_path / "first", parser, "words=whitespace")
    load_main("run_glue")(first)
    again = options(SAMPLES / "reviews.csv", tmp_path / "second", parser)[4:]
    metrics = load_main("run_glue")(["--model_name_or_path", str(tmp_path / "first"), *again])
    assert "eval_accuracy" in metrics
    assert AutoTokenizer.from_pretrained(tmp_path / "second").words == "whitespace"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ([], "name it yourself"),
        (["words=spaces"], "`words` is 'spaces'"),
        (["syntax_threshold=2"], "`syntax_threshold` is a field of the model, which is fixed in a checkpoint"),
        (["parsr=x"], "has no field 'parsr'. Did you mean 'parser'?"),
    ],
)
def test_of_a_checkpoint_only_the_tokenizer_can_be_set(settings, message, folder, tmp_path, capsys):
    arguments = [
        "--model_name_or_path",
        str(folder),
        *options(SAMPLES / "reviews.csv", tmp_path / "out", *settings)[4:],
    ]
    assert_one_line_error(load_main("run_glue"), arguments, message, tmp_path / "out", capsys)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (["parser=xx_no_such_parser"], "python -m spacy download xx_no_such_parser"),
        (["local_attention=syntactic"], "'syntactic'"),
        (["words=spaces"], "`words` is 'spaces'"),
        (["parser=3"], "`parser` is 3; it must be a text or null"),
        (["parser=null"], "needs the inputs dep_heads, which this tokenizer does not return"),
        (["parsr=x"], "has no field 'parsr'. Did you mean 'parser'?"),
        (["syntax_treshold=3"], "Did you mean 'syntax_threshold'?"),
    ],
)
def test_what_the_user_can_mend_is_one_line(fields, message, tmp_path, capsys):
    arguments = options(SAMPLES / "reviews.csv", tmp_path / "out", *fields)
    assert_one_line_error(load_main("run_glue"), arguments, message, tmp_path / "out", capsys)


def test_a_backbone_without_the_interface_is_refused(tmp_path, capsys):
    tiny_model("cool", backbone="xlnet").backbone_model.save_pretrained(tmp_path / "xlnet")
    AutoTokenizer.from_pretrained(tiny_backbone()).save_pretrained(tmp_path / "xlnet")
    arguments = options(SAMPLES / "reviews.csv", tmp_path / "out", backbone=tmp_path / "xlnet")
    message = "The backbone 'xlnet' cannot have local attention inside its layers"
    assert_one_line_error(load_main("run_glue"), arguments, message, tmp_path / "out", capsys)


def test_init_writes_the_tokenizer_too(tmp_path):
    fields = ["--config", f"parser={tiny_parser()}", "--config", "words=whitespace", "--config", "window_size=5"]
    assert command(["init", "sla-bert", "tiny", str(tmp_path / "sla"), *fields]) == 0
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "sla", parser=tiny_parser())
    assert (tokenizer.parser, tokenizer.words) == (tiny_parser(), "whitespace")
    auto_map = json.loads((tmp_path / "sla" / "tokenizer_config.json").read_text())["auto_map"]
    assert "tokenization_sla_bert.SlaBertTokenizer" in auto_map["AutoTokenizer"]
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "sla").eval()
    given = tokenizer("The cat sleeps.", return_tensors="pt")
    assert len(model(**given, output_attentions=True).gates) == model.config.num_hidden_layers


@pytest.mark.parametrize(
    ("parser", "message"),
    [("xx_no_such_parser", "cannot parse here yet.*spacy download xx_no_such_parser"), ("null", "has no parser")],
)
def test_init_says_that_a_parser_is_missing(parser, message, tmp_path, caplog):
    """The folder is written all the same: it may be for another machine."""
    assert command(["init", "sla-bert", "tiny", str(tmp_path / "sla"), "--config", f"parser={parser}"]) == 0
    assert re.search(message, caplog.text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return init_checkpoint("sla-bert", "tiny", tmp_path_factory.mktemp("sla") / "sla", parser=tiny_parser())


def test_pipelines_take_plain_sentences(folder):
    texts = ["The cat sleeps.", "", "   ", "\U0001f642 \U0001f642", "שלום עולם", "The man bought a boat. It rains."]
    tokenizer = AutoTokenizer.from_pretrained(folder, parser=tiny_parser())
    with pytest.raises(LookupError, match="has no text-classification head"):
        pipeline("text-classification", model=str(folder), tokenizer=tokenizer)
    heads = FAMILIES["sla-bert"].heads
    classifier, tagger = (
        heads[task].from_pretrained(folder).eval() for task in ("text-classification", "token-classification")
    )
    classify = pipeline("text-classification", model=classifier, tokenizer=tokenizer)
    alone = [classify(text)[0]["score"] for text in texts]
    together = [answer["score"] for answer in classify(texts, batch_size=3)]
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)
    tag = pipeline("token-classification", model=tagger, tokenizer=tokenizer, aggregation_strategy="simple")
    assert all(group["word"] in texts[0].lower() for group in tag(texts[0]))


def test_questions_are_answered_over_windows(folder):
    model = FAMILIES["sla-bert"].heads["question-answering"].from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, parser=tiny_parser())
    passage = "The man bought a boat. The cat sleeps. Birds fly over the old town. " * 6
    reader = pipeline("question-answering", model=model, tokenizer=tokenizer, max_seq_len=48, doc_stride=16)
    whole = reader(question="Who bought a boat?", context=passage)
    assert whole["answer"] == passage[whole["start"] : whole["end"]]
