"""The tiny spaCy pipeline that ships, the sentences that it knows, and installing pipelines as pip would."""

from pathlib import Path

from hf_localattn import resources

# Words of each sentence and the index of each word's head, from 0; the root is its own head.
SENTENCES = [
    ("The cat sleeps .", [1, 2, 2, 2]),
    ("A small dog saw the red house .", [2, 2, 3, 3, 6, 6, 3, 3]),
    ("She is n't here .", [1, 1, 1, 1, 1]),
    ("I can not find my keys .", [3, 3, 3, 3, 5, 3, 3]),
    ("We are gon na eat fish .", [4, 4, 3, 4, 4, 4, 4]),
    ("The man bought a boat .", [1, 2, 2, 4, 2, 2]),
    ("Birds fly over the old town .", [1, 1, 1, 5, 5, 1, 1]),
    ("It rains .", [1, 1, 1]),
]


def tiny_parser() -> str:
    return str(resources.tiny_parser())


def install_distribution(folder: Path, name: str, code: str, *, version: str = "1.0", entry_points: str = "") -> None:
    """Write a module and the metadata of its distribution into a folder for `sys.path`, as pip would."""
    metadata = folder / f"{name}.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(code)
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
