"""Mutations of a file that know what it is made of: words, numbers, entries, or its place."""

import gzip
import io
import json
import math
import os
import random
import re
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from tests.attacks.fuzzing import damaged, damaged_within

SEPARATORS = "\x1c\x1f\x85\xa0\u2028\u3000\ufeff\v\f\r\t \0é"
BEYOND = (2**31 - 1, -(2**31), -1, 0, 999_999_999, 2**24 + 1, 2**62, 1e308)
TENSORS = (
    torch.zeros(3, dtype=torch.complex64),
    torch.zeros(3).to_sparse(),
    torch.zeros(4, dtype=torch.int8),
    torch.full((3,), math.nan),
    torch.zeros(1).expand(10**12),
    torch.zeros(4, dtype=torch.int64),
    torch.zeros(()),
)
VALUES = (None, True, -1, 2**70, 1e308, "", "x", "../../x", [], [[]], {}, {"a": None}, "\ud800")
FLOATS = (math.nan, math.inf, -math.inf, 1e38, -1e38, 1e-45, 0.0)
WORDS = ("<eps>", "#0", "<s>", "</s>", "nan", "inf", "-inf", "1e999", "[", "]", "../../x", "|", "")
GZIP, ZIP = b"\x1f\x8b", b"PK"


def damage_json(value: Any, rng: random.Random) -> Any:
    """The value with a key less, or with a value of another type, somewhere inside."""
    if isinstance(value, dict | list) and value and rng.random() < 0.85:
        keys = list(value) if isinstance(value, dict) else range(min(len(value), 3))
        key = rng.choice(list(keys))
        copy = value.copy()
        if rng.random() < 0.15:
            del copy[key]
        else:
            copy[key] = damage_json(value[key], rng)
        return copy
    return rng.choice(TENSORS if isinstance(value, torch.Tensor) else VALUES)


def change_words(raw: bytes, rng: random.Random) -> bytes:
    """Put other words, numbers or separators in the place of some words of a text."""
    parts = re.split(r"(\s+)", raw.decode())
    for place in rng.sample(range(len(parts)), min(len(parts), rng.randint(1, 3))):
        drawn = (str(rng.choice(BEYOND)), rng.choice(WORDS), rng.choice(parts), parts[place] + "1")
        parts[place] = rng.choice((*drawn, rng.choice(SEPARATORS)))
    return "".join(parts).encode()


def change_lines(raw: bytes, rng: random.Random) -> bytes:
    """Remove, repeat, move or join lines of a text."""
    lines = raw.splitlines(keepends=True)
    for _ in range(rng.randint(1, 3)):
        line = lines.pop(rng.randrange(len(lines))) if lines else b"\n"
        lines[rng.randint(0, len(lines)) : 0] = rng.choice(
            ([], [line], [line, line], [line.rstrip() + b" "], [b"\n", line])
        )
    return b"".join(lines)


def forge_numbers(raw: bytes, rng: random.Random) -> bytes:
    """Change integers or floats behind the 4 that says their size, as Kaldi writes them."""
    forged = bytearray(raw)
    places = [found.end() for found in re.finditer(rb"\x04(?=.{4})", raw, re.DOTALL)]
    for place in rng.sample(places, min(len(places), rng.randint(1, 3))):
        drawn = rng.choice((rng.randint(-3, 9), *BEYOND[:6], *FLOATS))
        forged[place : place + 4] = struct.pack("<f" if isinstance(drawn, float) else "<i", drawn)
    return bytes(forged)


def change_entries(raw: bytes, rng: random.Random) -> bytes:
    """Change an entry of JSON, of a line of it, or of a file of torch.save."""
    if raw[:2] == ZIP or raw[:1] == b"\x80":
        remade = io.BytesIO()
        torch.save(damage_json(torch.load(io.BytesIO(raw), weights_only=True), rng), remade)
        return remade.getvalue()
    try:
        return json.dumps(damage_json(json.loads(raw), rng)).encode()
    except json.JSONDecodeError:
        lines = raw.splitlines()
        at = rng.randrange(len(lines))
        lines[at] = json.dumps(damage_json(json.loads(lines[at]), rng)).encode()
        return b"\n".join(lines)


def replace_by(path: Path, rng: random.Random) -> str:
    """Put something that is no file of the user's in its place; says what."""
    path.unlink()
    match what := rng.choice(
        ("folder", "itself", "/dev/zero", "/dev/null", "named pipe", "nothing")
    ):
        case "folder":
            path.mkdir()
        case "itself":
            path.symlink_to(path)
        case "named pipe":
            os.mkfifo(path)
        case "/dev/zero" | "/dev/null":
            path.symlink_to(what)
    return what


def edits_of(name: str, raw: bytes) -> list[Callable[[bytes, random.Random], bytes]]:
    """The mutations that suit what a file holds."""
    edits: list[Callable[[bytes, random.Random], bytes]] = [damaged]
    if name.endswith((".pt", ".pkl", ".json", ".jsonl")):
        edits += [change_entries] * 2
    if raw[:2] in (GZIP, ZIP):
        edits += [damaged_within]
    try:
        raw.decode()
    except UnicodeDecodeError:
        return [*edits, forge_numbers]
    return [*edits, change_words, change_words, change_lines] if raw else edits


def mutate(path: Path, rng: random.Random, others: Sequence[Path]) -> str:
    """Change a file, or put the content of another one in its place; says how."""
    raw = path.read_bytes()
    chance = rng.random()
    if chance < 0.08:
        return replace_by(path, rng)
    if chance < 0.16:
        other = rng.choice(others)
        path.write_bytes(other.read_bytes())
        return f"content of {other.name}"
    packed = raw[:2] == GZIP and rng.random() < 0.7
    content = gzip.decompress(raw) if packed else raw
    edit = rng.choice(edits_of(path.name, content))
    changed = edit(content, rng)
    path.write_bytes(gzip.compress(changed) if packed else changed)
    return edit.__name__
