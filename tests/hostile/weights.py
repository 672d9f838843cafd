"""Files named as safetensors files that are none."""

import json

PICKLE = b"cos\nsystem\n(S'echo the pickle of a checkpoint was run >&2'\ntR."

DEEP = "[" * 10**5
DIGITS = "9" * 5000
"""Nesting and an integer that JSON readers do not read."""


def header(content):
    """Return the header of a safetensors file."""
    text = content if isinstance(content, str) else json.dumps(content)
    return len(text).to_bytes(8, "little") + text.encode()


def tensor(shape=(1,), begin=0, end=4, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


LYING = {
    "empty": b"",
    "header-cut": (40).to_bytes(8, "little") + b'{"a":',
    "header-long": (2**60).to_bytes(8, "little") + b"{}",
    "header-list": header("[]"),
    "header-deep": header(DEEP),
    "header-digits": header(f'{{"a": {DIGITS}}}'),
    "tensor-cut": header({"a": tensor((9,), 0, 36)}) + bytes(4),
    "tensor-outside": header({"a": tensor((1,), 10**9, 10**9 + 4)}) + bytes(4),
    "tensor-backwards": header({"a": tensor((1,), 4, 0)}) + bytes(4),
    "tensor-shape": header({"a": tensor((10**9, 10**9))}) + bytes(4),
    "tensor-negative": header({"a": tensor((-1,))}) + bytes(4),
    "tensor-type": header({"a": tensor(dtype="PICKLE")}) + bytes(4),
    "tensors-overlap": header({"a": tensor(), "b": tensor()}) + bytes(4),
    "tensors-apart": header({"a": tensor(), "b": tensor((1,), 8, 12)}) + bytes(12),
    "bytes-behind": header({"a": tensor()}) + bytes(4) + PICKLE,
}
"""Files whose header lies."""
