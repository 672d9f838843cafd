"""Changes to a harmless checkpoint folder: what cases are made of."""

import io
import json
import os
import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

ABSENT = object()
"""In place of a value: the entry is removed."""

OUTSIDE = "{outside}"
"""Stands in a value for a folder that is not the checkpoint's."""

CODE = "raise SystemExit('the code of a checkpoint was run')\n"

Change = Callable[[Path, Path], None]


class Attack:
    """A pickle of this runs code when it is read."""

    def __reduce__(self):
        return os.system, ("echo the pickle of a checkpoint was run >&2",)


def config(**fields: Any) -> Change:
    """Set fields of the configuration."""
    return lambda folder, outside: _update(folder / "config.json", fields, outside)


def backbone(**fields: Any) -> Change:
    """Set fields of the backbone's configuration."""
    return lambda folder, outside: _update(folder / "config.json", {"backbone_config": fields}, outside)


def tokenizer(**fields: Any) -> Change:
    """Set entries of `tokenizer_config.json`."""
    return lambda folder, outside: _update(folder / "tokenizer_config.json", fields, outside)


def tokens(**fields: Any) -> Change:
    """Set entries of `tokenizer.json`."""
    return lambda folder, outside: _update(folder / "tokenizer.json", fields, outside)


def content(name: str, text: str | bytes) -> Change:
    """Write a file."""

    def change(folder: Path, outside: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.replace(OUTSIDE, str(outside)).encode())

    return change


def json_file(name: str, value: Any) -> Change:
    """Write a file of JSON."""
    return content(name, json.dumps(value))


def removed(*names: str) -> Change:
    """Delete files."""
    return lambda folder, outside: [(folder / name).unlink() for name in names] and None


def pickled(name: str) -> Change:
    """Write a pickle that runs code."""
    return content(name, pickle.dumps(Attack()))


def torch_saved(name: str) -> Change:
    """Write what `torch.save` makes of an object that runs code: a zip of a pickle."""
    import torch

    buffer = io.BytesIO()
    torch.save({"weight": Attack()}, buffer)
    return content(name, buffer.getvalue())


def renamed(name: str) -> Change:
    """Give a tensor of the weights another name."""

    def change(folder: Path, outside: Path) -> None:
        header, data = read_weights(folder / "model.safetensors")
        header[name] = header.pop(list(header)[-1])
        text = json.dumps(header).encode()
        content("model.safetensors", struct.pack("<Q", len(text)) + text + data)(folder, outside)

    return change


def sharded(file: str) -> Change:
    """Replace the weights by an index, which says of one tensor that it is in this file."""

    def change(folder: Path, outside: Path) -> None:
        header, data = read_weights(folder / "model.safetensors")
        names = [name for name in header if name != "__metadata__"]
        (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
        places = dict.fromkeys(names, "model-00001-of-00001.safetensors")
        places[names[0]] = file.replace(OUTSIDE, str(outside))
        index = {"metadata": {"total_size": len(data)}, "weight_map": places}
        json_file("model.safetensors.index.json", index)(folder, outside)

    return change


def several(*changes: Change) -> Change:
    """Make several changes."""

    def change(folder: Path, outside: Path) -> None:
        for one in changes:
            one(folder, outside)

    return change


def read_weights(path: Path) -> tuple[dict, bytes]:
    """The header of a safetensors file, and its data."""
    whole = path.read_bytes()
    length = struct.unpack("<Q", whole[:8])[0]
    return json.loads(whole[8 : 8 + length]), whole[8 + length :]


def _update(path: Path, fields: dict[str, Any], outside: Path) -> None:
    values = json.loads(path.read_text(encoding="utf-8"))
    for name, value in fields.items():
        old = values.get(name)
        if value is ABSENT:
            values.pop(name, None)
            continue
        values[name] = old | value if isinstance(old, dict) and isinstance(value, dict) and value else value
    content(path.name, json.dumps(values))(path.parent, outside)


def write_outside(folder: Path, sample: Path) -> None:
    """Write a folder that no checkpoint may reach: another checkpoint, whole, with code, a parser and a pickle."""
    shutil.copytree(sample, folder, dirs_exist_ok=True)
    for path in folder.glob("*.py"):
        path.write_text(CODE)
    json_file("parser/meta.json", {"lang": "en", "name": "hostile", "version": "1.0"})(folder, folder)
    content("parser/config.cfg", '[nlp]\nlang = "en"\npipeline = []\n')(folder, folder)
    content("parser/__init__.py", CODE)(folder, folder)
    pickled("pytorch_model.bin")(folder, folder)
    for name in ("config", "tokenizer"):
        shutil.copy(folder / f"{name}.json", folder / f"{name}.4.0.json")
    content("secret.txt", "a secret of this machine\n")(folder, folder)
