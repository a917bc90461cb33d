"""Preparations that are done once: a stamp says with which options, and by which files."""

import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from bayes_asr.kaldi_io.text import write_lines
from bayes_asr.recipe.scripts import exit_status


def prepare_once(
    prepare: Callable[[], None], out: Path, program: str, recipe: Mapping[str, Any], *, force: bool
) -> int:
    """Prepare `out`, unless the same recipe did; return 0, or 1 after a line of what is wrong.

    force: prepare it anyway.
    """
    stamp = out / "prepared.json"
    if not force and stamp.exists() and json.loads(stamp.read_text()) == recipe:
        print(f"{out} is prepared")
        return 0
    stamp.unlink(missing_ok=True)

    def prepare_and_stamp() -> None:
        prepare()
        write_lines([json.dumps(recipe)], stamp)

    return exit_status(program, prepare_and_stamp)


def checksum(files: Iterable[Path]) -> int:
    """A number that changes with the files."""
    return zlib.crc32(b"".join(file.read_bytes() for file in files))
