"""SLA's attention, losses and masks against equations and a search on the graph of words."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from hf_localattn import SlaBertConfig, SlaBertModel
from hf_localattn.installed.structure import check_structure
from hf_localattn.models import sla_row_blocks
from hf_localattn.models.sla_attention import DistanceSlope, gated_attention
from hf_localattn.models.sla_baselines import ancestor_mask, parent_loss
from hf_localattn.models.sla_distances import masks_by_distance
from hf_localattn.models.sla_masks import syntax_tables, window_tables
from tests.models.naive import LargestTensor, assert_same, with_gradients
from tests.models.tiny import COMMON, adapted, enable_checkpointing, run, tiny_config, tiny_model, token_ids
from tests.reference import sla as reference

BATCH, HEADS, LENGTH, WIDTH = 2, 3, 5, 3
SCALING = 0.6


def random_inputs(batch=BATCH, heads=HEADS, length=LENGTH, width=WIDTH, dtype=torch.float64):
    """Return random query, key, value and gate."""
    states = [torch.randn(batch, heads, length, width, dtype=torch.float64) for _ in range(3)]
    gate = torch.rand(batch, length, 1, dtype=torch.float64)
    return [tensor.to(dtype).requires_grad_() for tensor in (*states, gate)]


def additive(allowed, dtype=torch.float64):
    """Convert (B, L, L), True where the query may attend to the key, to a mask that is added to the scores."""
    return torch.zeros_like(allowed, dtype=dtype).masked_fill(~allowed, torch.finfo(dtype).min)[:, None]


def masks(batch=BATCH, length=LENGTH, dtype=torch.float64):
    """Return by kind a global mask, and a local mask that includes it, as in a model."""
    real = torch.ones(batch, length, length, dtype=torch.bool)
    real[-1, :, (length + 1) // 2 :] = False
    near = torch.rand(batch, length, length) < 0.5
    near |= torch.eye(length, dtype=torch.bool)
    blocked = near.clone()
    blocked[:, 0] = False
    return {
        "none": (None, None),
        "padding": (additive(real, dtype), additive(real, dtype)),
        "local": (None, additive(near, dtype)),
        "both": (additive(real, dtype), additive(near & real, dtype)),
        "any numbers": tuple(torch.randn(2, batch, 1, length, length, dtype=dtype)),
        "a row without local keys": (additive(real, dtype), additive(blocked & real, dtype)),
        "a row without keys": (additive(blocked, dtype), additive(blocked, dtype)),
    }


every_kind = pytest.mark.parametrize("kind", masks())


def loop(query, key, value, gate, mask, local_mask):
    rows = []
    for number, states in enumerate(zip(query, key, value, gate[..., 0], strict=True)):
        both = [None if one is None else one[number, 0] for one in (mask, local_mask)]
        rows.append(reference.gated_attention(*states, *both, SCALING))
    return [torch.stack(part) for part in zip(*rows, strict=True)]


@pytest.mark.parametrize("sizes", [(BATCH, HEADS, LENGTH, WIDTH), (1, 1, 1, 1), (1, 2, 7, 5), (3, 1, 2, 4)], ids=str)
@every_kind
@pytest.mark.usefixtures("poisoned_memory")
def test_equals_the_loop(kind, sizes):
    inputs, both = random_inputs(*sizes), masks(sizes[0], sizes[2])[kind]
    fast = with_gradients(lambda *states: gated_attention(*states, *both, scaling=SCALING), inputs)
    assert_same(fast, with_gradients(lambda *states: loop(*states, *both), inputs))


@pytest.mark.parametrize("extreme", [1, 30], ids=["usual scores", "scores beyond the mask's reach"])
@every_kind
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_stays_finite(dtype, kind, extreme):
    query, key, value, gate = random_inputs(dtype=dtype)
    # Every score is negative, so adding it to the lowest number overflows.
    inputs = [query.detach().abs() * extreme, -key.detach().abs() * extreme, value.detach(), gate.detach()]
    inputs = [tensor.requires_grad_() for tensor in inputs]
    both = masks(dtype=dtype)[kind]
    results = with_gradients(lambda *states: gated_attention(*states, *both, scaling=SCALING)[0], inputs)
    assert all(result.isfinite().all() and result.dtype == dtype for result in results)


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.9])
def test_both_attentions_are_dropped_independently_of_each_other(dropout):
    """The draws share random numbers, but all outcomes are as frequent as with two draws."""
    states, keep = torch.zeros(1, 1, 700, 4), 1 - dropout
    found = []
    for gate in (torch.ones(1, 700, 1), torch.zeros(1, 700, 1)):
        torch.manual_seed(0)
        drawn = gated_attention(states, states, states, gate, None, scaling=1.0, training=True, dropout=dropout)
        found.append(drawn[1])
        torch.testing.assert_close(drawn[1].max(), torch.tensor(1 / 700 / keep))
    local, everywhere = (one > 0 for one in found)
    for drawn, expected in ((local, keep), (everywhere, keep), (local & everywhere, keep * keep)):
        torch.testing.assert_close(drawn.double().mean().item(), expected, rtol=0, atol=0.004)  # six deviations


def test_dropout_is_seen_in_the_weights_and_off_in_evaluation():
    inputs = (*random_inputs(), None, masks()["local"][1])
    expected, _, _ = gated_attention(*inputs, scaling=SCALING)
    dropped, weights, _ = gated_attention(*inputs, scaling=SCALING, dropout=0.3, training=True)
    assert not torch.allclose(dropped, expected)
    assert_same([dropped], [(weights @ inputs[2]).transpose(1, 2)])
    for options in ({"dropout": 0.5}, {"training": True}):
        assert torch.equal(gated_attention(*inputs, scaling=SCALING, **options)[0], expected)
    assert not gated_attention(*inputs, scaling=SCALING, dropout=1.0, training=True)[0].any()


PARENTS = [[-1, 2, 2, 2, 1, -1], [-1, 1, -1, -1, -1, -1]]


@pytest.mark.parametrize("padded", [False, True])
def test_parent_loss_equals_the_loop(padded):
    """[CLS] 0 1 1 2 [SEP], and [CLS] 0 [SEP] with padding or with words without heads; without words it is 0."""
    inputs = [tensor.detach()[:, 0].requires_grad_() for tensor in random_inputs(length=6)[:2]]
    real = [[True] * 6, [True] * 3 + [False] * 3] if padded else None
    mask = torch.tensor(real) if padded else None
    fast = with_gradients(lambda *both: parent_loss(*both, mask, torch.tensor(PARENTS), scaling=SCALING), inputs)
    slow = with_gradients(lambda query, key: reference.lisa_loss([query @ key.mT * SCALING], PARENTS, real), inputs)
    assert_same(fast, slow)
    nothing = torch.full((BATCH, 6), -1)
    assert not any(one.any() for one in with_gradients(lambda *b: parent_loss(*b, mask, nothing, scaling=1.0), inputs))


# --- blocks of rows

LONG, ROWS = 23, 5
MASK = torch.ones(3, LONG, dtype=torch.long)
MASK[1, 13:] = 0
MASK[2, :6] = 0
INPUTS = {"input_ids": token_ids(3, LONG), "attention_mask": MASK}


def build(dropout=0.0, implementation="sdpa", **fields):
    model = tiny_model("sla-bert", **fields).double().train()
    model.set_attn_implementation(implementation)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = dropout
    return model


def train(model, inputs=INPUTS):
    """Return the states of real tokens and all gradients of a model."""
    torch.manual_seed(1)
    given = adapted(model, **inputs)
    states = model(**given).last_hidden_state[given["attention_mask"].bool()]
    (states * torch.linspace(-1, 2, states.numel(), dtype=states.dtype).view_as(states)).sum().backward()
    found = [states.detach(), *(parameter.grad for parameter in model.parameters() if parameter.grad is not None)]
    model.zero_grad()
    return found


@pytest.fixture
def trained(monkeypatch):
    """Train with blocks of the given number of rows."""

    def run(model, rows, inputs=INPUTS):
        monkeypatch.setattr(sla_row_blocks, "ROWS", rows)
        return train(model, inputs)

    return run


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize(
    "fields",
    [
        {"local_attention": "syntax", "neighbor_window": 2},
        {"local_attention": "window"},
        {"sla_layers": [1], "connect_roots": True},
    ],
    ids=["syntax", "window", "one layer"],
)
def test_a_model_equals_whole_rows_with_the_same_dropout(fields, implementation, dropout, trained):
    model = build(dropout, implementation, **fields)
    for inputs in (INPUTS, {"input_ids": INPUTS["input_ids"], "attention_mask": torch.ones_like(MASK)}):
        assert_same(trained(model, ROWS, inputs), trained(model, LONG, inputs))


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_changes_nothing(reentrant, trained):
    model = build(dropout=0.3)
    expected = trained(model, ROWS)
    enable_checkpointing(model, {"use_reentrant": reentrant})
    assert_same(trained(model, ROWS), expected)


def test_autocast_changes_little(trained):
    model = build(dropout=0.3).float()
    with torch.autocast("cpu", torch.bfloat16):
        for one, other in zip(trained(model, ROWS), trained(model, LONG), strict=True):
            torch.testing.assert_close(one, other, rtol=0.05, atol=0.05 * max(0.02, float(other.abs().max())))


@pytest.mark.parametrize("how", ["compile", "export", "func"])
def test_traced_and_transformed_models_use_whole_rows(how, monkeypatch):
    model = build(local_attention="window").eval()
    given = adapted(model, **INPUTS)
    monkeypatch.setattr(sla_row_blocks, "ROWS", ROWS)
    expected = model(**given).last_hidden_state
    if how == "compile":
        torch.compiler.reset()
        found = torch.compile(model, fullgraph=True, backend="eager")(**given).last_hidden_state
    elif how == "export":
        found = torch.export.export(model, (), given, strict=False).module()(**given).last_hidden_state
    else:
        parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
        found, _ = torch.func.vjp(
            lambda parameters: torch.func.functional_call(model, parameters, (), given).last_hidden_state, parameters
        )
    assert_same([found[MASK.bool()]], [expected[MASK.bool()]])


def test_attentions_that_are_asked_for_are_whole(monkeypatch):
    monkeypatch.setattr(sla_row_blocks, "ROWS", ROWS)
    model = build(implementation="eager")
    output = model(**adapted(model, **INPUTS), output_attentions=True)
    assert {weights.shape for weights in (*output.attentions, *output.local_attentions)} == {(3, 2, LONG, LONG)}


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("training", [True, False])
def test_nothing_is_as_large_as_a_mask(training, implementation, monkeypatch):
    """Neither weights nor a mask of all pairs of 400 tokens, forward or backward."""
    length, sizes = 400, {**COMMON, "hidden_size": 8, "intermediate_size": 8, "max_position_embeddings": 400}
    model = SlaBertModel(SlaBertConfig(backbone_config={"model_type": "bert", **sizes})).train(training)
    model.set_attn_implementation(implementation)
    mask = torch.ones(1, length, dtype=torch.long)
    mask[:, -99:] = 0
    given = adapted(model, input_ids=token_ids(1, length), attention_mask=mask)
    largest = {}
    for rows in (16, length):
        monkeypatch.setattr(sla_row_blocks, "ROWS", rows)
        with LargestTensor() as mode, torch.set_grad_enabled(training):
            states = model(**given).last_hidden_state
            if training:
                states.sum().backward()
        largest[rows] = mode.largest
    assert largest[16] < length * length / 4 < length * length <= largest[length]


# --- masks of SLA, WLA and SG-Net


OPTIONS = {"threshold": st.integers(0, 5), "neighbor_window": st.integers(0, 2), "connect_roots": st.booleans()}
WINDOW = {"window_size": st.integers(0, 5)}
repeatable = settings(max_examples=60, deadline=None, derandomize=True)


def syntax_mask(*structure, **options):
    return syntax_tables(*structure, **options).rows(slice(None))


def window_mask(word_index, **options):
    return window_tables(word_index, **options).rows(slice(None))


@st.composite
def structures(draw):
    """One to three random forests between special tokens, as `(word_index, dep_heads)`. Some tokens are open as keys.

    Words have up to three sub-words, or none (a normalizer drops them, their number stays), and either end of a
    segment may be cut off.
    """
    word_index, head_word, words = [-1] * draw(st.integers(0, 2)), {}, draw(st.integers(0, 3))
    for _ in range(draw(st.integers(1, 3))):
        numbers = range(words, words + draw(st.integers(1, 6)))
        order = draw(st.permutations(numbers))
        head_word |= {word: draw(st.sampled_from(order[: place + 1])) for place, word in enumerate(order)}
        tokens = [word for word in numbers for _ in range(draw(st.sampled_from([1, 1, 1, 0, 2, 3])))]
        left, right = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        word_index += tokens[left : max(left, len(tokens) - right)] + [-1] * draw(st.integers(1, 2))
        words = numbers.stop
    if draw(st.booleans()):
        while word_index[-1:] == [-1]:
            word_index.pop()
    word_index, heads = structure(word_index, head_word)
    is_open = draw(st.sets(st.integers(0, len(word_index))))
    return [-2 - word if place in is_open and word >= 0 else word for place, word in enumerate(word_index)], heads


def structure(word_index, head_word):
    """Return `word_index` and the `dep_heads` for the words of a tree (a list or a dict of heads) that have tokens."""
    first = {word: word_index.index(word) for word in word_index}
    heads = [-1 if word == -1 else first.get(head_word[word], first[word]) for word in word_index]
    return word_index, heads


def batched(rows, side="right", length=0):
    """Batch rows as two tensors (B, L); left padding shifts the heads."""
    length = max([length, *(len(word_index) for word_index, _ in rows)])
    words, heads = torch.full((2, len(rows), length), -1)
    for row, (word_index, dep_heads) in enumerate(rows):
        start = length - len(word_index) if side == "left" else 0
        stop = start + len(word_index)
        words[row, start:stop] = torch.tensor(word_index)
        heads[row, start:stop] = torch.tensor([head if head == -1 else head + start for head in dep_heads])
    return words, heads


batches = st.builds(
    batched,
    st.lists(structures(), min_size=1, max_size=3),
    st.sampled_from(["left", "right"]),
    length=st.integers(1, 30),
)


@repeatable
@given(batches, st.just({}) | st.fixed_dictionaries(OPTIONS), st.just({}) | st.fixed_dictionaries(WINDOW))
def test_masks_equal_the_search(batch, options, window):
    check_structure(*batch)
    rows = list(zip(*(tensor.tolist() for tensor in batch), strict=True))
    assert syntax_mask(*batch, **options).tolist() == [reference.syntax_mask(*row, **options) for row in rows]
    assert window_mask(batch[0], **window).tolist() == [reference.window_mask(words, **window) for words, _ in rows]
    expected = [reference.ancestor_mask(*row) for row in rows]
    for longest in ({}, {"max_length": batch[0].shape[1]}):
        assert ancestor_mask(*batch, **longest).tolist() == expected


@repeatable
@given(batches, st.fixed_dictionaries(OPTIONS), st.booleans(), st.integers(0, 9))
def test_distances_equal_the_search(batch, options, shared_words, seed):
    """Few different tokens, so that words of two segments are often equal, or equal up to their last token."""
    threshold, kind = options["threshold"], "shared_words" if shared_words else "all"
    config = tiny_config("sla-bert", pair_attention=kind, syntax_threshold=threshold)
    config.neighbor_window, config.connect_roots = options["neighbor_window"], options["connect_roots"]
    ids = torch.randint(2, batch[0].shape, generator=torch.Generator().manual_seed(seed))
    masks = masks_by_distance(config, ids, *batch)
    found = torch.stack(masks).logical_not().sum(0).tolist()
    rows = zip(*(tensor.tolist() for tensor in (*batch, ids)), strict=True)
    assert found == [reference.distances(*row, **options, shared_words=shared_words) for row in rows]


@pytest.mark.usefixtures("poisoned_memory")
def test_a_soft_threshold_equals_the_loop():
    """Distances of -1 are keys without a token."""
    slope = DistanceSlope().double()
    distances = torch.randint(5, (BATCH, 1, LENGTH, LENGTH))
    distances[0, ..., -2:] = distances[1, ..., 0] = -1
    inputs = [*random_inputs(), slope.bias.detach().fill_(0.3).requires_grad_()]

    def fast(*states):
        mask = torch.func.functional_call(slope, {"bias": states[-1]}, (distances, torch.float64))
        return gated_attention(*states[:-1], None, mask, scaling=SCALING)

    def slow(*states):
        mask = -torch.log(1 + states[-1].exp()) * distances
        return loop(*states[:-1], None, mask.masked_fill(distances < 0, -torch.inf))

    assert_same(with_gradients(fast, inputs), with_gradients(slow, inputs))


@pytest.mark.parametrize("fields", [{"local_attention": "soft"}, {"pair_attention": "shared_words"}], ids=str)
def test_distances_train_alike_in_both_implementations(fields):
    model = build(implementation="eager", **fields)
    expected = train(model)
    model.set_attn_implementation("sdpa")
    assert_same(train(model), expected)


def test_what_distances_cannot_do_is_refused():
    soft = tiny_model("sla-bert", local_attention="soft")
    pairs = tiny_model("sla-bert", pair_attention="shared_words")
    soft.set_attn_implementation("flex_attention")
    with pytest.raises(ValueError, match="attn_implementation"):
        run(soft, **INPUTS)
    with pytest.raises(ValueError, match="input_ids"):
        run(pairs, inputs_embeds=torch.zeros(3, LONG, 32), attention_mask=MASK)


PARSED = (
    "In/feels a/way way/In ,/feels the/film film/feels feels/feels like/feels a'/breath breath/like of/breath"
    " fresh/air air/of ,'/feels but/feels only/to to/feels those/to that/allow allow/those it/allow in/allow ./feels"
)


def test_the_papers_sentence():
    """Figure 3: "fresh", "air" and "allow" may attend to "film", which is outside the window."""
    words, heads = zip(*(one.split("/") for one in PARSED.split()), strict=True)
    batch = batched([structure(list(range(len(words))), [words.index(head) for head in heads])])

    def see(mask):
        return {word for word in words if mask[0, words.index(word), words.index("film")]}

    # "air" is next to a comma whose head is "feels".
    assert see(syntax_mask(*batch)) == set(words) - {"fresh", "allow", "it"}
    assert see(syntax_mask(*batch, threshold=4)) == set(words)
    assert not see(window_mask(batch[0], window_size=5)) & {"fresh", "air", "allow"}
    ancestors = ancestor_mask(*batch)[0, words.index("fresh")].nonzero().flatten()
    assert {words[place] for place in ancestors} == {"fresh", "air", "of", "breath", "like", "feels"}


@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 513])
def test_a_word_sees_ancestors_however_far_and_no_cycle_is_too_long(length):
    chain = [max(0, word - 1) for word in range(length)]
    batch = batched([structure(list(range(length)), chain)])
    check_structure(*batch)
    expected = torch.ones(length, length, dtype=torch.bool).tril()
    assert torch.equal(ancestor_mask(*batch, max_length=length)[0], expected)
    if length > 1:
        with pytest.raises(ValueError, match=r"row 0 at position .*cycle"):
            check_structure(*batched([structure(list(range(length)), [length - 1, *chain[1:]])]))


# [CLS] 0 1 1 2 [SEP] 3 4 [SEP] as the second row of two: word 1 is the root, with two tokens; word 4's head is 3.
WORDS = [-1, 0, 1, 1, 2, -1, 3, 4, -1]
HEADS = [-1, 2, 2, 2, 2, -1, 6, 6, -1]
MISTAKES = {
    "beyond the end": ({4: 99}, "head", 4),
    "before the start": ({4: -2}, "head", 4),
    "a special token": ({1: 5}, "head", 1),
    "a later sub-word": ({4: 3}, "head", 4),
    "a root's later sub-word": ({2: 3, 3: 3}, "head", 2),
    "sub-words that differ": ({3: 1}, "head", 3),
    "the other segment": ({7: 2}, "head", 7),
    "a cycle": ({1: 4, 4: 1}, "cycle", 1),
}


@pytest.mark.parametrize(("changes", "message", "position"), MISTAKES.values(), ids=MISTAKES)
@pytest.mark.parametrize("shift", [0, 13])
def test_a_wrong_structure_is_refused_by_row_and_position(changes, message, position, shift):
    heads = [changes.get(place, head) for place, head in enumerate(HEADS)]
    # The first row is 13 tokens longer, and left padding shifts the second.
    long = structure(list(range(len(WORDS) + 13)), [0] * 22)
    words, dep_heads = batched([long, (WORDS, HEADS)], "left" if shift else "right")
    dep_heads[1, shift : shift + 9] = torch.tensor([head if head < 0 else head + shift for head in heads])
    with pytest.raises(ValueError, match=rf"row 1 at position {position + shift}\b.*{message}"):
        check_structure(words, dep_heads)
