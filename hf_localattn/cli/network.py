"""The network that a command needs for a checkpoint or data set on the Hub."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hf_localattn.resources import NAMED_BACKBONES

TIMEOUT = 10
"""Seconds to wait for the Hub."""


def look_for_hub(*names: object) -> None:
    """Set HF_HUB_OFFLINE if a name is neither a folder nor a backbone of the package, and the Hub cannot be reached.

    Otherwise huggingface_hub would ask for each file six times. It must not be imported yet.

    Args:
        *names: Checkpoints, backbones and data sets; None for those that are not given.
    """
    is_remote = any(
        isinstance(name, str) and name not in NAMED_BACKBONES and not Path(name).expanduser().exists()
        for name in names
    )
    if not is_remote or any(os.environ.get(name) for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")):
        return
    from socket import gaierror
    from urllib.request import Request, urlopen  # would slow down `--help`

    endpoint = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    try:
        urlopen(Request(endpoint, method="HEAD"), timeout=TIMEOUT).close()
    except OSError as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, gaierror | ConnectionError | TimeoutError):  # others are answers
            print(f"{endpoint} cannot be reached ({reason}): only its cache on this machine is read.", file=sys.stderr)
            os.environ["HF_HUB_OFFLINE"] = "1"
