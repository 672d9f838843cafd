"""The version of hf_localattn, in a file that travels with every checkpoint."""

VERSION = "0.1.0"
