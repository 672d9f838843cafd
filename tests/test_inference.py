import pytest
import torch
from transformers import BertModel, RobertaConfig, RobertaForQuestionAnswering

from hf_localattn import SamRobertaConfig, SamRobertaForQuestionAnswering
from hf_localattn.inference import Answer, answer_question
from hf_localattn.models.forward_inputs import longest_input
from hf_localattn.tasks.arguments import DataArguments
from hf_localattn.tasks.lengths import input_length
from tests.qa_helpers import question, tiny_bert, word_pieces

TOKENIZER = word_pieces()
MODEL = tiny_bert(TOKENIZER)
CONTEXT = question()["context"]
LONG = "the red dog sat on the mat. " * 12
SMALL = {"max_length": 40, "doc_stride": 8}


@pytest.mark.parametrize("context", [CONTEXT, LONG])
def test_an_answer_is_a_span_of_its_context(context):
    answer = answer_question(MODEL, TOKENIZER, "who sat?", context, **SMALL)
    assert isinstance(answer, Answer)
    assert context[answer.start : answer.end] == answer.text != ""
    assert 0 < answer.probability <= 1


def test_score_is_the_models_own_best_pair():
    answer = answer_question(MODEL, TOKENIZER, "who sat?", CONTEXT, max_answer_length=64, n_best_size=64)
    inputs = TOKENIZER("who sat?", CONTEXT, return_tensors="pt")
    context = torch.tensor([sequence == 1 for sequence in inputs.sequence_ids(0)])
    with torch.no_grad():
        output = MODEL(**inputs)
    pairs = output.start_logits[0, context][:, None] + output.end_logits[0, context][None, :]
    in_order = torch.ones_like(pairs).triu().bool()
    assert answer.score == pytest.approx(pairs[in_order].max().item())


@pytest.mark.parametrize("tokenizer", [TOKENIZER, word_pieces("left"), word_pieces("left", cls_last=True)])
def test_batches_give_the_answers_of_single_questions(tokenizer):
    questions = ["who sat?", "where sat the cat?", "who?"]
    contexts = [CONTEXT, LONG, "the mat."]
    if tokenizer.padding_side == "left":  # BERT's positions move under left padding unless it is told
        single = answer_question(MODEL, tokenizer, questions[2], contexts[2], **SMALL)
        assert contexts[2][single.start : single.end] == single.text
        return
    single = [answer_question(MODEL, tokenizer, q, c, **SMALL) for q, c in zip(questions, contexts, strict=True)]
    together = answer_question(MODEL, tokenizer, questions, contexts, batch_size=3, **SMALL)
    for one, other in zip(single, together, strict=True):
        assert (one.text, one.start, one.end) == (other.text, other.start, other.end)
        assert one.score == pytest.approx(other.score, rel=1e-5)


class LeftPadded(torch.nn.Module):
    """Finds the token "mat", whatever the padding."""

    def __init__(self, tokenizer):
        super().__init__()
        self.config = type("Config", (), {"max_position_embeddings": 64})
        self.token, self.device = tokenizer.convert_tokens_to_ids("mat"), torch.device("cpu")

    def forward(self, input_ids, attention_mask, return_dict=True):
        logits = (input_ids == self.token).float()
        return {"start_logits": logits, "end_logits": logits}


@pytest.mark.parametrize("cls_last", [False, True])
def test_left_padding_moves_no_answer(cls_last):
    tokenizer = word_pieces("left", cls_last)
    answers = answer_question(LeftPadded(tokenizer), tokenizer, ["who?", "where sat the cat?"], ["a mat", CONTEXT])
    assert [(answer.text, answer.start) for answer in answers] == [("mat", 2), ("mat", 20)]


def test_shapes_of_the_result():
    both = ["who sat?", "where?"]
    assert [a.text for a in answer_question(MODEL, TOKENIZER, both, CONTEXT)] == [
        answer_question(MODEL, TOKENIZER, q, CONTEXT).text for q in both
    ]
    ranked = answer_question(MODEL, TOKENIZER, "who sat?", CONTEXT, top_k=3)
    assert len(ranked) == 3
    assert [a.score for a in ranked] == sorted((a.score for a in ranked), reverse=True)
    assert len({(a.start, a.end) for a in ranked}) == 3
    nested = answer_question(MODEL, TOKENIZER, both, [CONTEXT, LONG], top_k=2, **SMALL)
    assert [len(own) for own in nested] == [2, 2]


def test_a_model_may_abstain():
    silent = answer_question(
        MODEL, TOKENIZER, "who sat?", CONTEXT, top_k=2, handle_no_answer=True, null_score_diff_threshold=-1e9
    )
    assert (silent[0].text, silent[0].start, silent[0].end) == ("", 0, 0)
    assert silent[1].text
    spoken = answer_question(
        MODEL, TOKENIZER, "who sat?", CONTEXT, handle_no_answer=True, null_score_diff_threshold=1e9
    )
    assert spoken.text == silent[1].text


def test_the_models_modes_and_gradients_stay_as_they_were():
    model = tiny_bert(TOKENIZER).train()
    model.bert.embeddings.eval()
    answer_question(model, TOKENIZER, "who sat?", CONTEXT)
    assert model.training
    assert model.bert.encoder.training
    assert not model.bert.embeddings.training
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_half_precision():
    assert answer_question(tiny_bert(TOKENIZER).bfloat16(), TOKENIZER, "who sat?", CONTEXT).text in CONTEXT


def test_windows_are_cut_to_what_the_model_takes():
    assert longest_input(MODEL, TOKENIZER) == 64
    answer_question(MODEL, TOKENIZER, "who sat?", LONG, max_length=384, doc_stride=16)
    config = RobertaConfig(
        vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, max_position_embeddings=34
    )
    assert longest_input(RobertaForQuestionAnswering(config), TOKENIZER) == 32


def test_windows_are_cut_to_what_layers_on_top_take(caplog):
    fields = {"bilstm_hidden_size": 4, "num_bilstm_layers": 1, "tam_max_length": 24, "fam_reduction": 4}
    model = SamRobertaForQuestionAnswering(SamRobertaConfig(backbone_config=MODEL.config, **fields)).eval()
    assert longest_input(model, TOKENIZER) == 24
    answer = answer_question(model, TOKENIZER, "who sat?", LONG)
    assert LONG[answer.start : answer.end] == answer.text != ""
    assert input_length(model, TOKENIZER, DataArguments(train_file="x", max_seq_length=50)) == 24
    assert (
        "max_seq_length 50 is more than the model takes (its tam_max_length; for longer texts set a larger one"
        in caplog.text
    )
    model.config.tam_ffn = "token"
    assert longest_input(model, TOKENIZER) == 64


@pytest.mark.parametrize(
    ("asked", "context", "settings", "message"),
    [
        ("", CONTEXT, {}, "`question` is empty"),
        (["who?", "where?"], [CONTEXT, " "], {}, "`context` 1 is empty"),
        (["who?"], [CONTEXT, CONTEXT], {}, "1 questions, but 2 contexts"),
        ("who?", [CONTEXT], {}, "One question needs one context"),
        ([], CONTEXT, {}, "No question is given"),
        ("who?", CONTEXT, {"top_k": 0}, "top_k must be at least 1; got 0"),
        ("who?", CONTEXT, {"batch_size": 0}, "batch_size must be at least 1; got 0"),
        ("who?", CONTEXT, {"max_answer_length": 0}, "max_answer_length must be at least 1"),
        ("who?", CONTEXT, {"max_length": 16, "doc_stride": 16}, "doc_stride 16 is too large"),
    ],
)
def test_bad_input(asked, context, settings, message):
    with pytest.raises(ValueError, match=message):
        answer_question(MODEL, TOKENIZER, asked, context, **settings)


def test_a_model_without_a_question_answering_head():
    with pytest.raises(ValueError, match="BertModel gives no start_logits and end_logits"):
        answer_question(BertModel(MODEL.config), TOKENIZER, "who?", CONTEXT)


def test_names_in_place_of_what_they_name():
    with pytest.raises(ValueError, match=r"load it with `AutoModelForQuestionAnswering.from_pretrained\('folder'\)`"):
        answer_question("folder", TOKENIZER, "who?", CONTEXT)
