"""How scripts of recipes end, and what they do once: a stamp says with which options."""

import json
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError, complaint
from bayes_asr.base.files import read_bytes, read_text
from bayes_asr.kaldi_io.text import write_lines

SETS = ("train", "dev", "test")


def exit_status(program: str, run: Callable[[], object]) -> int:
    """The status of a script: 0 after `run`, or 1 after a line for each thing that is wrong."""
    try:
        run()
    except (InputError, OSError) as error:
        errors: Sequence[Exception] = [error]
    except ExceptionGroup as group:
        errors = group.exceptions
    else:
        return 0
    for fault in errors:
        print(f"{program}: error: {complaint(fault)}", file=sys.stderr)
    return 1


def prepare_once(
    prepare: Callable[[], None], out: Path, program: str, recipe: Mapping[str, Any], *, force: bool
) -> int:
    """Prepare `out`, unless the same recipe did; return 0, or 1 after a line of what is wrong.

    It is prepared as long as it has the features of all sets. force: prepare it anyway.
    """
    stamp, stamped = out / "prepared.json", None
    if not force and all((out / "data" / name / "feats.scp").exists() for name in SETS):
        with suppress(FileNotFoundError, ValueError):  # it is empty where a disk was full
            stamped = json.loads(read_text(stamp))
    if stamped == recipe:
        print(f"{out} is prepared")
        return 0
    stamp.unlink(missing_ok=True)

    def prepare_and_stamp() -> None:
        prepare()
        write_lines([json.dumps(recipe)], stamp)

    return exit_status(program, prepare_and_stamp)


def checksum(files: Iterable[Path]) -> int:
    """A number that changes with the files."""
    return zlib.crc32(b"".join(map(read_bytes, files)))
