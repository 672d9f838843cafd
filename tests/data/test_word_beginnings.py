"""Lists of words: `baker` has the pieces that it has in a text, for every kind of tokenizer."""

import pytest
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from tokenizers.pre_tokenizers import ByteLevel, Metaspace, Split, WhitespaceSplit
from transformers import AutoTokenizer, GemmaTokenizer, PreTrainedTokenizerFast

from hf_localattn.data.words import prepare_tokenizer
from hf_localattn.models.word_beginnings import check_word_beginnings, keeps_word_beginnings

BYTES, SPACES = "Ġ", "▁"

LLAMA = Split(Regex(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+"), "isolated")
BLOOM = Split(Regex(r" ?[^(\s|[.,!?])]+"), "isolated")


def bpe(mark, pre_tokenizer=None, normalizer=None):
    """A tokenizer that knows `baker` after a mark, and splits it without the mark."""
    pieces = ["[UNK]", *"baker", mark, "ak", "er", f"{mark}b", f"{mark}bak", f"{mark}baker"]
    merges = [("a", "k"), ("e", "r"), (mark, "b"), (f"{mark}b", "ak"), (f"{mark}bak", "er")]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    backend = Tokenizer(models.BPE(vocabulary, merges, unk_token="[UNK]"))
    if pre_tokenizer is not None:
        backend.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        backend.normalizer = normalizer
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]", pad_token="[UNK]")


def unigram(*steps):
    backend = Tokenizer(models.Unigram([("[UNK]", -9.0), ("baker", -3.0), ("▁baker", -2.0), ("▁", -4.0)], unk_id=0))
    backend.pre_tokenizer = pre_tokenizers.Sequence(list(steps))
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]", pad_token="[UNK]")


def wordpiece():
    backend = Tokenizer(models.WordPiece({"[UNK]": 0, "baker": 1, "b": 2}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]", pad_token="[UNK]")


def sequence_of(splitter):
    return pre_tokenizers.Sequence([splitter, ByteLevel(add_prefix_space=False, use_regex=False)])


def gemma():
    return bpe(SPACES, Split(" ", "merged_with_previous"), normalizers.Replace(" ", SPACES))


KEPT = {
    "WordPiece": (wordpiece, "baker"),
    "RoBERTa with add_prefix_space": (lambda: bpe(BYTES, ByteLevel(add_prefix_space=True)), "Ġbaker"),
    "T5": (lambda: unigram(Metaspace(prepend_scheme="always")), "▁baker"),
    "Metaspace first": (lambda: unigram(Metaspace(prepend_scheme="first")), "▁baker"),
    "XLM-R": (lambda: unigram(WhitespaceSplit(), Metaspace(prepend_scheme="always")), "▁baker"),
    "Llama 2": (
        lambda: bpe(SPACES, None, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])),
        "▁baker",
    ),
}
MENDED = {
    "RoBERTa": (lambda: bpe(BYTES, ByteLevel(add_prefix_space=False)), "Ġbaker"),
    "ModernBERT": (lambda: bpe(BYTES, ByteLevel(add_prefix_space=False), normalizers.NFC()), "Ġbaker"),
    "Llama 3": (lambda: bpe(BYTES, sequence_of(LLAMA)), "Ġbaker"),
    "BLOOM": (lambda: bpe(BYTES, sequence_of(BLOOM)), "Ġbaker"),
    "Gemma": (gemma, "▁baker"),
    "Metaspace never": (lambda: unigram(Metaspace(prepend_scheme="never")), "▁baker"),
}


@pytest.mark.parametrize("name", [*KEPT, *MENDED])
def test_a_word_of_a_list_has_its_pieces_in_a_text(name, tmp_path):
    make, piece = (KEPT | MENDED)[name]
    tokenizer = make()
    assert keeps_word_beginnings(tokenizer) is (name in KEPT)
    before = tokenizer.backend_tokenizer.to_str()
    prepare_tokenizer(tokenizer)
    assert (tokenizer.backend_tokenizer.to_str() == before) is (name in KEPT)
    tokenizer.save_pretrained(tmp_path)
    for loaded in (tokenizer, AutoTokenizer.from_pretrained(tmp_path)):
        assert loaded.tokenize(["baker", "baker"], is_split_into_words=True) == [piece, piece]
        assert loaded.tokenize("baker baker") == [piece, piece]
        check_word_beginnings(loaded)


def test_a_mark_that_cannot_be_kept_is_refused():
    stripped = bpe(BYTES, sequence_of(LLAMA), normalizers.Strip())
    with pytest.raises(ValueError, match="choose another tokenizer"):
        prepare_tokenizer(stripped)
    with pytest.raises(ValueError, match="saved with the trained model"):
        check_word_beginnings(stripped)
    # The class builds its normalizer again when it is loaded.
    rebuilt = GemmaTokenizer(gemma().get_vocab(), merges=[], unk_token="[UNK]")
    with pytest.raises(ValueError, match="PreTrainedTokenizerFast"):
        prepare_tokenizer(rebuilt)
