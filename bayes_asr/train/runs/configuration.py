"""Configuration of a run directory."""

import json
from collections.abc import Sequence
from pathlib import Path

from bayes_asr.base.files import is_there
from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config
from bayes_asr.kaldi_io.side_files import CONFIG, check_is_run

PACKED = "packed.json"
"""A file of runs whose data lie in themselves, as `decode.packed` writes them."""


def read_configuration(run: Path, settings: Sequence[str] = ()) -> Config:
    """Read the configuration of a run, with settings over it; InputError where there is no run."""
    check_is_run(run)
    inside = [f"data.dir={json.dumps(str(run))}"] if is_there(run / PACKED) else []
    return load([run / CONFIG], [*inside, *settings])
