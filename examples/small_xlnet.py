"""Create a small random XLNet and its tokenizer (padding on the left, `<cls>` last), without any download.

`python examples/small_xlnet.py texts.txt small-xlnet` trains the tokenizer on a text file.
"""

import argparse
from pathlib import Path

from tokenizers import SentencePieceUnigramTokenizer
from transformers import XLNetConfig, XLNetModel, XLNetTokenizer, set_seed

# In the order of their ids, as in the published tokenizer.
SPECIAL_TOKENS = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]


def learn_tokenizer(texts: Path, size: int) -> XLNetTokenizer:
    """Train a tokenizer with at most `size` tokens on a text file."""
    learner = SentencePieceUnigramTokenizer()
    learner.train([str(texts)], vocab_size=size, special_tokens=SPECIAL_TOKENS, unk_token="<unk>", show_progress=False)
    pieces = sorted(learner.get_vocab().items(), key=lambda item: item[1])
    return XLNetTokenizer(vocab=[(piece, -0.01 * number) for piece, number in pieces], unk_id=0)


def main() -> None:
    """Parse the command line and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path, help="a text file")
    parser.add_argument("output", type=Path, help="a folder for the model and the tokenizer")
    parser.add_argument("--vocabulary", type=int, default=2000, help="largest number of tokens")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    set_seed(arguments.seed)
    tokenizer = learn_tokenizer(arguments.texts, arguments.vocabulary)
    sizes = {"d_model": 96, "n_layer": 3, "n_head": 4, "d_inner": 192, "vocab_size": len(tokenizer)}
    special = {name: getattr(tokenizer, name) for name in ("pad_token_id", "bos_token_id", "eos_token_id")}
    XLNetModel(XLNetConfig(**sizes, **special)).save_pretrained(arguments.output)
    tokenizer.save_pretrained(arguments.output)
    print(f"{len(tokenizer)} tokens, padding on the {tokenizer.padding_side}; written to {arguments.output}")


if __name__ == "__main__":
    main()
