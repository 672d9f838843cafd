"""Structured self-attentive embeddings (Lin et al., 2017) as a family of hf_localattn in a package of its own."""
