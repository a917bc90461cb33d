"""Other programs' readers of the formats that verbs read."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import kaldiio
import soundfile
import torch
import yaml


def read_archive(path: Path) -> None:
    """Read matrices as kaldiio does: those that the scp beside names, or all."""
    scp = path.with_suffix(".scp")
    if scp.exists():
        read_scp(scp)
    else:
        for _ in kaldiio.load_ark(str(path)):
            pass


def read_scp(path: Path) -> None:
    """Read all matrices that an scp names, with paths relative to the working directory."""
    for _ in kaldiio.load_scp_sequential(str(path)):
        pass


READERS: dict[str, Callable[[Path], object]] = {
    ".ark": read_archive,
    ".wav": soundfile.read,
    ".sph": soundfile.read,
    ".flac": soundfile.read,
    ".ogg": soundfile.read,
    ".mp3": soundfile.read,
    ".aiff": soundfile.read,
    ".json": lambda path: json.loads(path.read_bytes()),
    ".yaml": lambda path: yaml.safe_load(path.read_bytes()),
    ".gz": lambda path: gzip.decompress(path.read_bytes()),
    ".pt": lambda path: torch.load(path, weights_only=True),
    ".pkl": lambda path: torch.load(path, weights_only=True),
}


def refused_elsewhere(path: Path) -> str:
    """What another reader says against a file; nothing if it reads it, or if there is none."""
    if path.suffix not in READERS or not path.is_file():
        return ""
    try:
        READERS[path.suffix](path)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
