"""Factory of the spaCy component `hf_localattn_negation`.

spaCy imports this module, an entry point, whenever a pipeline is loaded. It therefore lies outside the package, whose
import brings transformers. Older releases of spaCy read the annotations of `make_component` as types, not as text.
"""

from typing import TYPE_CHECKING

from spacy.language import Language

if TYPE_CHECKING:
    from hf_localattn.negation.component import NegationComponent

FACTORY = "hf_localattn_negation"


@Language.factory(
    FACTORY,
    assigns=["doc._.negations", "token._.negation_scope", "span._.negated", "span._.negation_cue"],
    default_config={
        "model": None,
        "revision": None,
        "device": "cpu",
        "ent_attribute": "negex",
        "chunk_prefix": True,
        "convention": "notes",
        "split_lines": None,
        "terms": {},
        "threshold": 0.0,
        "max_characters": 1_000_000,
        "max_words": 160,
    },
)
def make_component(
    nlp: Language,
    name: str,
    model: str | None,
    revision: str | None,
    device: str,
    ent_attribute: str,
    chunk_prefix: bool,
    convention: str,
    split_lines: bool | None,
    terms: dict[str, list[str]],
    threshold: float,
    max_characters: int | None,
    max_words: int,
) -> "NegationComponent":
    """Make the component for `nlp.add_pipe("hf_localattn_negation")`. `NegationComponent` has the settings.

    Raises:
        ValueError: `model` is not a checkpoint for negation detection, or a setting has an unknown value.
    """
    from hf_localattn.negation.component import NegationComponent

    return NegationComponent(
        model,
        name=name,
        revision=revision,
        device=device,
        ent_attribute=ent_attribute,
        chunk_prefix=chunk_prefix,
        convention=convention,
        split_lines=split_lines,
        terms=terms,
        threshold=threshold,
        max_characters=max_characters,
        max_words=max_words,
    )
