"""Train tiny spaCy pipelines on a few sentences, in a second. They are correct only on these sentences."""

import functools
import itertools
import random
import shutil
import tempfile
from pathlib import Path

import numpy
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed, load_config

from hf_localattn import resources

# Words of each sentence and the index of each word's head, from 0; the root is its own head.
SENTENCES = {
    "en": [
        ("The cat sleeps .", [1, 2, 2, 2]),
        ("A small dog saw the red house .", [2, 2, 3, 3, 6, 6, 3, 3]),
        ("She is n't here .", [1, 1, 1, 1, 1]),
        ("I can not find my keys .", [3, 3, 3, 3, 5, 3, 3]),
        ("We are gon na eat fish .", [4, 4, 3, 4, 4, 4, 4]),
        ("The man bought a boat .", [1, 2, 2, 4, 2, 2]),
        ("Birds fly over the old town .", [1, 1, 1, 5, 5, 1, 1]),
        ("It rains .", [1, 1, 1]),
    ],
    "zh": [
        ("我 看 书 。", [1, 1, 1, 1]),
        ("他 不 吃 鱼 。", [2, 2, 2, 2, 2]),
        ("红 花 开 了 。", [1, 2, 2, 2, 2]),
        ("你 爱 白 猫 。", [1, 1, 3, 1, 1]),
    ],
}


@functools.cache
def tiny_parser(language: str = "en") -> str:
    """Folder of a pipeline that knows `SENTENCES` and has components that parsing does not need, trained once here."""
    states = random.getstate(), numpy.random.get_state()
    try:
        fix_random_seed(0)
        pipeline = _pipeline(language)
        examples = [_example(pipeline, sentence) for sentence in SENTENCES[language]]
        examples += [_example(pipeline, *two) for two in itertools.permutations(SENTENCES[language][:3], 2)]
        optimizer = pipeline.initialize(lambda: examples)
        optimizer.learn_rate = 0.005
        with pipeline.select_pipes(enable=["tok2vec", "parser"]):  # the others only serve to be excluded
            for _ in range(60):
                pipeline.update(examples, sgd=optimizer, drop=0.0)
    finally:
        random.setstate(states[0])
        numpy.random.set_state(states[1])
    _KEPT.append(folder := tempfile.TemporaryDirectory(prefix="tiny-parser-"))
    pipeline.to_disk(Path(folder.name) / language)
    return f"{folder.name}/{language}"


_KEPT: list[tempfile.TemporaryDirectory] = []


def _pipeline(language):
    components = load_config(resources.tiny_parser() / "config.cfg")["components"]
    parser = components["parser"]["model"]
    tagger = {"@architectures": "spacy.Tagger.v2", "tok2vec": parser["tok2vec"]}
    pipeline = spacy.blank(language)
    pipeline.add_pipe("tok2vec", config={"model": components["tok2vec"]["model"]})
    pipeline.add_pipe("tagger", config={"model": tagger})
    pipeline.add_pipe("ner", config={"model": {**parser, "state_type": "ner"}})
    # Last, as the last listener passes the gradients back to `tok2vec`.
    pipeline.add_pipe("parser", config={"model": parser, "min_action_freq": 1})
    pipeline.add_pipe("doc_cleaner")
    return pipeline


def _example(pipeline, *sentences):
    words, heads, labels = [], [], []
    for text, own_heads in sentences:
        heads += [len(words) + head for head in own_heads]
        labels += ["ROOT" if head == word else "dep" for word, head in enumerate(own_heads)]
        words += text.split()
    gold = Doc(pipeline.vocab, words=words, heads=heads, deps=labels, tags=["X"] * len(words), ents=["O"] * len(words))
    return Example(Doc(pipeline.vocab, words=words), gold)


def install_distribution(folder: Path, name: str, code: str, *, version: str = "1.0", entry_points: str = "") -> None:
    """Write a module and the metadata of its distribution into a folder for `sys.path`, as pip would."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(code)
    for old in folder.glob(f"{name}-*.dist-info"):
        shutil.rmtree(old)
    metadata = folder / f"{name}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (metadata / "entry_points.txt").write_text(entry_points)


def install_pipeline(folder: Path, name: str, pipeline: str, *, version: str = "1.0") -> None:
    """Install a spaCy pipeline as its wheel does: a package that loads it, declared as an entry point."""
    code = f"import spacy\n\n\ndef load(**settings):\n    return spacy.load({pipeline!r}, **settings)\n"
    declared = f"[spacy_models]\n{name} = {name}\n"
    install_distribution(folder, name, code, version=version, entry_points=declared)


def record_parses(monkeypatch, pipeline) -> list[list]:
    """Return a list that gets the texts of each call of a pipeline's `pipe`."""
    calls, pipe = [], pipeline.pipe
    monkeypatch.setattr(pipeline, "pipe", lambda texts: pipe(calls.append([*texts]) or calls[-1]))
    return calls
