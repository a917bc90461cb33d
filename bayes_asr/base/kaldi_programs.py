"""Programs of Kaldi, and NIST's for counting errors: where they are installed."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from bayes_asr.base.errors import InputError

ROOT = "KALDI_ROOT"
DEBIAN_SCTK = Path("/usr/lib/sctk/bin")
SCRIPTS = ("egs/wsj/s5/utils/parallel", "egs/wsj/s5/utils")


def find_program(name: str) -> str:
    """Return the path of a Kaldi program or script: below KALDI_ROOT, else on PATH.

    Raises InputError that says where it was looked for.
    """
    root = os.environ.get(ROOT, "")
    folders = []
    if root:
        folders = [*sorted(Path(root, "src").glob("*bin")), *(Path(root, s) for s in SCRIPTS)]
    program = _find(name, folders)
    if program is None:
        where = f"below {ROOT}={root} nor on PATH" if root else f"on PATH, and {ROOT} is not set"
        raise InputError(f"{name} is not {where}: build Kaldi, or set {ROOT} to where it lies")
    return program


def find_nist_program(name: str) -> str:
    """Return the path of a program of NIST's SCTK: Kaldi's copy, else on PATH, else Debian's."""
    root = os.environ.get(ROOT, "")
    kaldis = [Path(root, "tools/sctk/bin")] if root else []
    program = _find(name, kaldis) or _find(name, [DEBIAN_SCTK])
    if program is None:
        raise InputError(f"{name} is not installed: it is part of NIST's SCTK, Debian package sctk")
    return program


def _find(name: str, folders: Sequence[Path]) -> str | None:
    """The first executable of this name in the folders, or else on PATH."""
    for directory in folders:
        if (directory / name).is_file() and os.access(directory / name, os.X_OK):
            return str(directory / name)
    return shutil.which(name)
