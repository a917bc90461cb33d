"""A folder that mixtures decoded as a run: its configuration and what made it."""

import json
import platform
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bayes_asr import __version__
from bayes_asr.base.errors import InputError
from bayes_asr.base.files import replacing
from bayes_asr.base.shared_library import name_blas
from bayes_asr.config.decoding_keys import SEARCH_KEYS
from bayes_asr.config.merge import load
from bayes_asr.decode.search.search_record import MBR, Record, read_record
from bayes_asr.evaluate.score.sweeps import find_hypotheses
from bayes_asr.kaldi_io.side_files import CONFIG, ENVIRONMENT

MADE_BY = ("parameters", "gaussians", "frontend")  # what gmm decode notes of the model


def write_run(run: Path, config: Sequence[Path], settings: Sequence[str]) -> None:
    """Write what a run says of itself, config.yaml and env.json, of what was decoded in a folder.

    InputError where `gmm decode` did not decode dev there.
    """
    decoded = run / "decode_dev"
    record = read_record(decoded)
    if record is None or not set(MADE_BY) < set(record):
        raise InputError(f"{decoded}: nothing that bayes-asr gmm decode wrote; decode dev first")
    load(config, [*settings, *list_settings(decoded, record)]).save(run / CONFIG)
    versions = {
        "bayes_asr": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": name_blas(),
    }
    environment = {name: record[name] for name in MADE_BY} | versions
    with replacing(run / ENVIRONMENT) as temporary:
        temporary.write_text(json.dumps(environment, indent=1) + "\n", encoding="utf-8")


def list_settings(decoded: Path, record: Record) -> list[str]:
    """The keys of a configuration in which the decoding of mixtures differs from a network's."""
    lm_weights, penalties = zip(*find_hypotheses(decoded), strict=True)
    values = {f"decode.{name}": record.get(name) for name in SEARCH_KEYS} | {
        "decode.lm_weights": sorted(set(lm_weights)),
        "decode.insertion_penalties": sorted(set(penalties)),
        f"decode.{MBR}": record.get(MBR, False),
        "data.graph": [record.get("graph")],
    }
    return [f"{name}={json.dumps(value)}" for name, value in values.items()]
