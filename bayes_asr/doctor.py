"""What is there, and whether a training would start: checked in seconds, before hours are spent."""

import logging
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from bayes_asr.config import Config
from bayes_asr.decode import native
from bayes_asr.decode.archive import BACKENDS, choose_decoder
from bayes_asr.errors import InputError
from bayes_asr.kaldi import find_nist_program
from bayes_asr.log import LOGGER
from bayes_asr.tables.fst import read_fst
from bayes_asr.tables.mdl import read_transition_model
from bayes_asr.tables.reader import OpenPipe
from bayes_asr.train.corpus import (
    NAMED,
    LabelledSet,
    data_dir,
    features_of,
    located,
    report_skipped,
    training_and_dev,
)
from bayes_asr.train.plan import architecture

State = Literal["ok", "warning", "error"]
EXTRAS = {
    "decode": ("kaldifst",),
    "report": ("matplotlib",),
    "mini": ("espeakng_loader", "kaldi_native_fbank"),
}
GMM_SCRIPTS = (  # of Kaldi's egs/wsj/s5: what local/kaldi_gmm.sh calls
    *("steps/make_mfcc.sh", "steps/compute_cmvn_stats.sh", "steps/train_mono.sh"),
    *("steps/train_deltas.sh", "steps/train_lda_mllt.sh", "steps/train_sat.sh"),
    *("steps/align_si.sh", "steps/align_fmllr.sh", "steps/decode_fmllr.sh"),
    *("steps/nnet/make_fmllr_feats.sh", "utils/prepare_lang.sh", "utils/mkgraph.sh"),
    *("utils/subset_data_dir.sh", "utils/fix_data_dir.sh"),
)
GMM_PROGRAMS = (  # one of each of Kaldi's folders that they need
    *("compute-mfcc-feats", "gmm-est-fmllr", "compile-train-graphs", "fsttablecompose"),
    *("lattice-to-post", "arpa2fst", "fstcompile"),
)
SAMPLE = 10  # utterances of a set that are read
LEAST_FREE = 2**30  # bytes


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; only an error keeps a training from starting."""

    name: str
    state: State
    message: str


def environment() -> list[Check]:
    """Python, torch, native code, optional packages, other programs, disk."""
    devices = f"{torch.cuda.device_count()} CUDA devices, {torch.get_num_threads()} threads"
    built = native.library() is not None
    free = shutil.disk_usage(Path.cwd()).free
    return [
        Check("python", "ok", f"{platform.python_version()} on {platform.machine()}"),
        Check("torch", "ok", f"{torch.__version__}, {devices}"),
        Check("native decoder", "ok", "built")
        if built
        else Check("native decoder", "warning", f"{native.LIBRARY} is not built: decoding is slow"),
        *(Check(f"extra {extra}", "ok", _importable(extra)) for extra in EXTRAS),
        *(Check(f"decoding by {name}", "ok", _backend(name)) for name in BACKENDS),
        Check("scoring by NIST", "ok", _nist()),
        Check("Kaldi's GMMs", "ok", _gmm_scripts()),
        Check(
            "disk",
            "ok" if free > LEAST_FREE else "warning",
            f"{free / 2**30:.1f} GiB free in {Path.cwd()}",
        ),
    ]


def corpus(config: Config, open_pipe: OpenPipe | None = None) -> list[Check]:
    """The sets of a configuration, as training, forward and decoding will find them."""
    checks: list[Check] = []
    with _collected(checks, "training data", blocking=True):
        architecture(config.model, 1, [1])
        train, dev = training_and_dev(config, open_pipe)
        for name, data in (("train", train), ("dev", dev)):
            checks.append(Check(name, "ok", _described(data)))
    for name in ("dev", "test"):
        with _collected(checks, f"{name} set"):
            checks.append(Check(f"{name} set", "ok", _unlabelled(config, name, open_pipe)))
    with _collected(checks, "graph"):
        checks.append(Check("graph", "ok", _graph(config)))
    return checks


def _importable(extra: str) -> str:
    missing = [name for name in EXTRAS[extra] if find_spec(name) is None]
    return f"without {', '.join(missing)}: pip install bayes_asr[{extra}]" if missing else "there"


def _which(programs: tuple[str, ...]) -> dict[str, str | None]:
    """Where the programs are: below KALDI_ROOT or on the PATH."""
    root = os.environ.get("KALDI_ROOT")
    places = ("src/*bin", "tools/openfst/bin")
    folders = [folder for place in places for folder in Path(root).glob(place)] if root else []
    path = os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")])
    return {program: shutil.which(program, path=path) for program in programs}


def _gmm_scripts() -> str:
    """Whether local/kaldi_gmm.sh would find what it calls."""
    root = os.environ.get("KALDI_ROOT")
    if not root:
        return "KALDI_ROOT is not set (only local/kaldi_gmm.sh needs it, or a path.sh)"
    scripts = Path(root, "egs", "wsj", "s5")
    missing = [name for name in GMM_SCRIPTS if not (scripts / name).is_file()]
    missing += [program for program, where in _which(GMM_PROGRAMS).items() if not where]
    lacking = f"{', '.join(missing)} not found (only local/kaldi_gmm.sh needs them)"
    return lacking if missing else f"scripts in {scripts} and their programs: there"


def _backend(name: str) -> str:
    """Whether a decoding backend could be used as it would be called here."""
    trouble = choose_decoder(name, Path(), os.environ.get("decode_cmd", "")).trouble()  # noqa: SIM112
    return f"not usable: {trouble} (one backend is enough)" if trouble else "usable"


def _nist() -> str:
    """Where NIST's scorer is."""
    try:
        return f"usable: {find_nist_program('hubscr.pl')}"
    except InputError as error:
        return f"not usable: {error}; runs are scored without it"


@contextmanager
def _collected(checks: list[Check], name: str, *, blocking: bool = False) -> Iterator[None]:
    """Turn what is logged, and bad input, into checks."""
    states: dict[str, State] = {"INFO": "ok", "WARNING": "warning"}

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            checks.append(Check(name, states[record.levelname], record.getMessage()))

    handlers, LOGGER.handlers = LOGGER.handlers, [Collector()]
    level = LOGGER.level
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    except (InputError, OSError) as error:
        checks.append(Check(name, "error" if blocking else "warning", str(error)))
    finally:
        LOGGER.handlers = handlers
        LOGGER.setLevel(level)


def _described(data: LabelledSet) -> str:
    """Read some utterances, which compares features and alignments, and count all."""
    sample = _spread(list(data.lengths))
    shapes = {data[utt].shape[1] for utt in sample}
    return (
        f"{len(data.lengths)} utterances, {sum(data.lengths.values())} frames,"
        f" {data.features.dimensions} dimensions ({shapes.pop()} for the network),"
        f" {data.alignments.model.num_pdfs} pdfs; {len(sample)} utterances read"
    )


def _unlabelled(config: Config, name: str, open_pipe: OpenPipe | None) -> str:
    data = data_dir(config, name, open_pipe)
    features = features_of(data, config.features, open_pipe)
    total = len(data.utt2spk)
    why = f"{name}: no features in {data.path}"
    report_skipped(why, features.missing, total, 0.0, "forward --max-skipped")
    without = [utt for utt in features.utterances if utt not in (data.text or {})]
    if without:
        names = ", ".join(without[:NAMED])
        raise InputError(f"{data.path / 'text'}: {len(without)} of {total} lack a text: {names}")
    sample = _spread(features.utterances)
    for utt in sample:
        features[utt]
    return f"{len(features.utterances)} utterances with features and text; {len(sample)} read"


def _spread(utterances: list[str]) -> list[str]:
    """Some utterances from the beginning to the end."""
    places = np.linspace(0, len(utterances) - 1, min(SAMPLE, len(utterances)))
    return [utterances[place] for place in places.round().astype(int)]


def _graph(config: Config) -> str:
    """Compare the transition-ids of the graph with those of the training alignments' model."""
    folder = located(config.data.graph, config.data, "decoding graph")
    aligned = located(config.data.train.alignments, config.data, "train alignments")
    model = read_transition_model(aligned / "final.mdl")
    graph = read_fst(folder / "HCLG.fst")
    last = int(graph.ilabel.max(initial=0))
    if last > model.num_transition_ids:
        raise InputError(
            f"{folder / 'HCLG.fst'} has transition-id {last}, but {aligned / 'final.mdl'} has 1 to"
            f" {model.num_transition_ids}; build the graph with that model"
        )
    recorded = folder / "num_pdfs"  # written by Kaldi's mkgraph.sh
    if recorded.exists() and recorded.read_text().split() != [str(model.num_pdfs)]:
        raise InputError(
            f"{recorded} says {recorded.read_text().strip()!r}, but {aligned / 'final.mdl'} has"
            f" {model.num_pdfs} pdfs; build the graph with that model"
        )
    if not (folder / "words.txt").exists():
        raise InputError(f"{folder / 'words.txt'} is missing; copy it from the language directory")
    return f"{len(graph.final)} states, {len(graph.ilabel)} arcs, {model.num_pdfs} pdfs"
