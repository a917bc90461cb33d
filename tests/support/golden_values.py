"""Values of a golden run: what the files below its folder hold, by the name of each value.

Losses, errors, costs and likelihoods are numbers, what was recognised is text. A digest stands for
the bits of weights, archives and models: the same on the same processor with the same torch.
"""

import gzip
import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np
import torch

Values = dict[str, float | str]
DIGEST = "sha256:"
"""Beginning of a value that is a digest."""
LEARNT = ("model", "optimizer", "front_ends", "log_priors", "other_log_priors", "speakers")
"""Entries of a checkpoint that training computes."""
TIMES = {"seconds", "frames_per_second"}


def read_values(folder: Path) -> Values:
    """All values of the files below a folder that are of a kind in `READERS`."""
    return {
        f"{path.relative_to(folder)} {name}".rstrip(): value
        for path in sorted(folder.rglob("*"))
        for pattern, read in READERS.items()
        if path.match(pattern)
        for name, value in read(path).items()
    }


def read_history(path: Path) -> Values:
    """Losses, errors and rates of each epoch of a training."""
    return {
        f"epoch {entry['epoch']} {name}": value
        for entry in map(json.loads, path.read_text().splitlines())
        for name, value in entry.items()
        if isinstance(value, int | float) and name not in TIMES
    }


def read_passes(path: Path) -> Values:
    """Log-likelihoods a frame of each pass of a training of Gaussian mixtures."""
    passes = json.loads(path.read_text()).get("log_likelihoods", [])
    return {f"pass {number} log-likelihood": value for number, value in enumerate(passes)}


def read_checkpoint(path: Path) -> Values:
    """Digests of what a network has learnt."""
    content = torch.load(path, map_location="cpu", weights_only=True)
    return {key: digest_tensors(content[key]) for key in LEARNT if content.get(key) is not None}


def digest_tensors(content: Any) -> str:
    """The digest of all tensors of nested mappings, with their names, types and shapes."""
    sha = hashlib.sha256()
    for name, tensor in walk_tensors(content):
        sha.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        sha.update(tensor.contiguous().numpy().tobytes())
    return DIGEST + sha.hexdigest()


def walk_tensors(content: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors of nested mappings, by the keys that lead to them."""
    if isinstance(content, torch.Tensor):
        yield name, content
    elif isinstance(content, Mapping):
        for key in sorted(content, key=str):
            yield from walk_tensors(content[key], f"{name}/{key}")


def read_archive(path: Path) -> Values:
    """The mean of each matrix of an archive, and the digest of all."""
    means = {f"{utt} mean": float(np.mean(x)) for utt, x in kaldiio.load_ark(str(path))}
    return read_digest(path) | means


def read_digest(path: Path) -> Values:
    """The digest of a file, of what it holds where it is compressed."""
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    return {"": DIGEST + hashlib.sha256(content).hexdigest()}


def read_table(path: Path) -> Values:
    """Words or classes by utterance."""
    lines = (line.partition(" ") for line in path.read_text().splitlines())
    return {utt: words for utt, _, words in lines}


def read_costs(path: Path) -> Values:
    """Costs of the best path of each utterance: of the graph, and acoustic."""
    lines = map(str.split, path.read_text().splitlines())
    return {
        f"{utt} {name}": float(cost)
        for utt, *costs in lines
        for name, cost in zip(("graph", "acoustic"), costs, strict=True)
    }


READERS: dict[str, Callable[[Path], Values]] = {
    "history.jsonl": read_history,
    "gmm.json": read_passes,
    "best.pt": read_checkpoint,
    "last.pt": read_checkpoint,
    "*.ark": read_archive,
    "words*.txt": read_table,
    "decisions": read_table,
    "costs.txt": read_costs,
    **dict.fromkeys(("lat.*.gz", "ali.*.gz", "final.*mdl", "tree", "final.mat"), read_digest),
    "trans.*": read_digest,
}
"""Readers by the names of files."""


def describe_machine() -> dict[str, str]:
    """What the bits of floating-point numbers depend on."""
    described = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    fields = dict(map(str.strip, line.split(":")) for line in described.splitlines() if ":" in line)
    return {
        "processor": fields.get("model name", platform.processor()),
        "instructions": hashlib.sha256(fields.get("flags", "").encode()).hexdigest()[:16],
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "torch's instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "numpy": np.__version__,
        **{name: os.environ[name] for name in SWITCHES if name in os.environ},
    }


SWITCHES = ("BAYES_ASR_KERNELS", "BAYES_ASR_DECODER", "ATEN_CPU_CAPABILITY", "OPENBLAS_CORETYPE")
"""Variables that choose the code for a processor."""


def is_digest(value: float | str) -> bool:
    """Whether a value stands for bits."""
    return isinstance(value, str) and value.startswith(DIGEST)


def describe_changes(recorded: Values, found: Values) -> list[str]:
    """A line for each value that is not the same, or is there only once."""
    names = [*recorded, *(name for name in found if name not in recorded)]
    return [
        f"{name}: {recorded.get(name, 'absent')} recorded, {found.get(name, 'absent')} found"
        for name in names
        if recorded.get(name) != found.get(name)
    ]
