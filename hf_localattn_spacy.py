"""Factory of the spaCy component `hf_localattn_negation`.

spaCy imports this module, an entry point, whenever a pipeline is loaded. It therefore lies outside the package, whose
import brings transformers. Older releases of spaCy read the annotations of `make_component` as types, not as text.
"""

from typing import TYPE_CHECKING

from spacy.language import Language

if TYPE_CHECKING:
    from hf_localattn.serving.spacy_component import NegationComponent

FACTORY = "hf_localattn_negation"


@Language.factory(
    FACTORY,
    assigns=["doc._.negations", "token._.negation_scope", "span._.negated"],
    default_config={
        "model": None,
        "revision": None,
        "device": "cpu",
        "ent_attribute": "negex",
    },
)
def make_component(
    nlp: Language,
    name: str,
    model: str | None,
    revision: str | None,
    device: str,
    ent_attribute: str,
) -> "NegationComponent":
    """Make the component for `nlp.add_pipe("hf_localattn_negation", config={"model": ...})`.

    Raises:
        ValueError: `model` is missing, or is not a checkpoint for negation detection.
    """
    from hf_localattn.serving.spacy_component import NegationComponent

    if model is None:
        raise ValueError(f'Give the checkpoint: nlp.add_pipe("{FACTORY}", config={{"model": "OWNER/NAME"}}).')
    return NegationComponent(model, name=name, revision=revision, device=device, ent_attribute=ent_attribute)
