"""How far a training has come: `gmm.json` in its folder."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bayes_asr.errors import InputError
from bayes_asr.files import is_there, read_text, replacing, settle

MARK = "gmm.json"
MODEL = "final.mdl"


@dataclass
class Progress:
    """What a training is made of, how many phases are complete, and how well each pass has fitted.

    `of`: options and hashes of inputs; `first`: Gaussians to begin with; `frames`,
    `log_likelihoods` a frame: of the passes that are done.
    """

    of: Mapping[str, Any]
    done: int = 0
    first: int = 0
    frames: int = 0
    log_likelihoods: list[float] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Keep it in `folder`."""
        with replacing(folder / MARK) as temporary:
            temporary.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")


def read_progress(folder: Path, of: Mapping[str, Any]) -> Progress | None:
    """The progress of a training that is made of the same; None where there is none, or of others.

    InputError where the folder has a model that no training of ours has made.
    """
    settle(folder)
    path = folder / MARK
    if not is_there(path):
        if is_there(folder / MODEL):
            raise InputError(
                f"{folder}: holds {MODEL}, which bayes-asr gmm did not write; choose another"
                " folder, or remove what is there"
            )
        return None
    try:
        progress = Progress(**json.loads(read_text(path)))
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{path}: is damaged ({error}); remove the folder and begin anew"
        ) from None
    return progress if progress.of == json.loads(json.dumps(of)) else None


def hash_files(paths: Iterable[Path]) -> str:
    """A hash of what these files hold; those that are not there count as empty."""
    total = hashlib.sha256()
    for path in paths:
        if is_there(path):
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
        total.update(b"\n")
    return total.hexdigest()
