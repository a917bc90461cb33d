"""fmllr.json beside fMLLR features: what made them of sound, so that new sound can follow them."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, read_bytes, real_path, replacing
from bayes_asr.base.log import LOGGER
from bayes_asr.data.features.front_end import describe_stream, read_analysis
from bayes_asr.kaldi_io.side_files import parse_json

FILE = "fmllr.json"
COMPARED = ("kind", "sample_rate", "bands", "dither")  # the width tells what else differs


@dataclass(frozen=True)
class FmllrRecord:
    """model_dir: the folder of the Gaussians; sound: the analysis that made what these read."""

    model_dir: Path
    sound: Mapping[str, Any]


def describe_adapted(sound: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of env.json for features that fMLLR adapts; sound: their analysis of sound."""
    return {**sound, "adapted": "fmllr"}


def describe_analysis(directory: Path) -> Mapping[str, Any]:
    """The analysis of sound behind features, as env.json has it; empty where none is recorded."""
    adapted = read_record(directory)
    return read_analysis(directory) or (describe_adapted(adapted.sound) if adapted else {})


def check_analysis(stream: str, directory: Path, trained: Mapping[str, Any]) -> None:
    """InputError for another analysis than that of training; a warning for another dither alone."""
    analysis, trained = map(_name_adapted, (describe_analysis(directory), trained))
    # Older versions do not record all of it.
    for key in (key for key in COMPARED if key in trained and key in analysis):
        if analysis[key] != trained[key]:
            message = (
                f"{directory / 'feats.scp'}: {describe_stream(stream)} have the {key}"
                f" {analysis[key]}, but those of training {trained[key]}; extract all alike"
            )
            if key != "dither":
                raise InputError(message)
            LOGGER.warning("%s", message)


def _name_adapted(analysis: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same with a kind of its own if fMLLR adapted the features."""
    adapted = {"kind": f"{analysis.get('kind')} with fMLLR"} if "adapted" in analysis else {}
    return {**analysis, **adapted}


def find_record(directories: Sequence[Path]) -> FmllrRecord | None:
    """The record that all of these data directories have; None where they have not the same."""
    record, *further = map(read_record, directories)
    return record if all(twin == record for twin in further) else None


def write_record(record: FmllrRecord, out: Path) -> None:
    """Write it beside the features of `out`, by a path that holds where both are moved together."""
    model = os.path.relpath(real_path(record.model_dir), real_path(out))
    with replacing(out / FILE) as temporary:
        temporary.write_text(json.dumps({"model": model, "sound": record.sound}), encoding="utf-8")


def read_record(data: Path) -> FmllrRecord | None:
    """The record of a data directory; None where there is none. InputError for another content."""
    path = data / FILE
    if not is_there(path):
        return None
    try:
        fields = parse_json(read_bytes(path))
    except ValueError:
        fields = None
    match fields:
        case {"model": str(model), "sound": dict(sound)}:
            return FmllrRecord(Path(os.path.normpath(real_path(data) / model)), sound)
    raise InputError(
        f"{path}: no record of fMLLR; make the features again by bayes-asr gmm features"
    )
