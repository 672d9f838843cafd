"""Services that only the installed package has: backbones, checks of strangers' files, kept parses, exported graphs.

`services.py` gives them to `models/`, which travels with checkpoints. Importing this package imports neither torch nor
transformers.
"""
