"""Version of hf_localattn, in a file that is saved with every checkpoint."""

VERSION = "0.2.0"
