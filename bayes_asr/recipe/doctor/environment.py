"""Checks of the machine: libraries, optional packages, other programs, the disk.

They take seconds, before hours are spent.
"""

import os
import platform
import shutil
from pathlib import Path

import torch

from bayes_asr.base import shared_library
from bayes_asr.base.errors import InputError
from bayes_asr.base.installed import EXTRAS, find_missing
from bayes_asr.base.kaldi_programs import find_nist_program
from bayes_asr.base.programs import explain_failure
from bayes_asr.base.shared_library import SharedLibrary
from bayes_asr.decode.lattices import compiled as lattices
from bayes_asr.decode.search import compiled as decoder
from bayes_asr.decode.search.archive import DECODERS, choose_decoder
from bayes_asr.gmm import compiled as gmm
from bayes_asr.nn.kernels.cpu import library as recurrence
from bayes_asr.recipe.doctor.check import LEAST_FREE, Check
from bayes_asr.tasks.chain import compiled as chain

LIBRARIES = (
    ("native decoder", decoder.LIBRARY, "decoding takes about 15 times as long"),
    ("native GMMs", gmm.LIBRARY, "GMMs take about 20 times as long"),
    ("native lattices", lattices.LIBRARY, "sums over lattices take about 5 times as long"),
    ("native LF-MMI", chain.LIBRARY, "the denominator of LF-MMI takes about 20 times as long"),
)
COMPILERS = (os.environ.get("CXX", "c++"), "g++", "clang++")
GMM_SCRIPTS = (  # of Kaldi's egs/wsj/s5: what local/kaldi_gmm.sh calls
    "steps/make_mfcc.sh",
    "steps/compute_cmvn_stats.sh",
    "steps/train_mono.sh",
    "steps/train_deltas.sh",
    "steps/train_lda_mllt.sh",
    "steps/train_sat.sh",
    "steps/align_si.sh",
    "steps/align_fmllr.sh",
    "steps/decode_fmllr.sh",
    "steps/nnet/make_fmllr_feats.sh",
    "utils/prepare_lang.sh",
    "utils/mkgraph.sh",
    "utils/subset_data_dir.sh",
    "utils/fix_data_dir.sh",
)
GMM_PROGRAMS = (  # one of each of Kaldi's folders that they need
    "compute-mfcc-feats",
    "gmm-est-fmllr",
    "compile-train-graphs",
    "fsttablecompose",
    "lattice-to-post",
    "arpa2fst",
    "fstcompile",
)


def check_environment() -> list[Check]:
    """Python, torch, native code, optional packages, other programs, disk."""
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    devices = f"{', '.join(names) or 'no GPU'}, {torch.get_num_threads()} threads"
    compiler = next(filter(None, map(shutil.which, COMPILERS)), "")
    free = shutil.disk_usage(Path.cwd()).free
    return [
        Check("python", "ok", f"{platform.python_version()} on {platform.machine()}"),
        Check("torch", "ok", f"{torch.__version__}, {devices}"),
        *(_check_library(*library, compiler) for library in LIBRARIES),
        _check_recurrence(compiler),
        *(_check_import(extra) for extra in EXTRAS),
        *(_check_backend(name) for name in DECODERS),
        _check_nist(),
        _check_gmm_scripts(),
        Check(
            "disk",
            "ok" if free > LEAST_FREE else "warning",
            f"{free / 2**30:.1f} GiB free in {Path.cwd()}",
        ),
    ]


def _check_library(name: str, library: SharedLibrary, cost: str, compiler: str) -> Check:
    """Whether what has a slower form in Python is compiled."""
    if library.usable:
        return _check_age(name, library, "built")
    absence = _explain_absence(library.fault, compiler)
    return Check(name, "warning", f"{absence}: {cost}")


def _check_age(name: str, library: SharedLibrary, description: str) -> Check:
    """Whether a library is as old as its sources, where a checkout has them."""
    folders = (library.file.parent / "csrc", Path(shared_library.__file__).parent / "csrc")
    sources = sorted(path for folder in folders for path in folder.glob("*"))
    built = library.file.stat().st_mtime
    if newer := next((path for path in sources if path.stat().st_mtime > built), None):
        remedy = "install again, or it lacks what has changed: pip install -e ."
        return Check(name, "warning", f"{description}, but before {newer} changed: {remedy}")
    return Check(name, "ok", description)


def _check_recurrence(compiler: str) -> Check:
    """Check which code the recurrences run on the CPU."""
    try:
        path = recurrence.path()
    except InputError as error:
        return Check("recurrence", "error", str(error))
    if path != "torch":
        description = f"compiled, {path} of {', '.join(recurrence.paths())}"
        return _check_age("recurrence", recurrence.LIBRARY, description)
    if recurrence.LIBRARY.usable:
        return Check("recurrence", "ok", f"torch alone, as {recurrence.PATH_VARIABLE} says")
    absence = _explain_absence(recurrence.LIBRARY.fault, compiler)
    cost = "torch alone trains, which takes up to twice as long"
    return Check("recurrence", "warning", f"{absence}: {cost}")


def _explain_absence(missing: str, compiler: str) -> str:
    """Why a library is not there, and how it would be."""
    if compiler:
        return f"{missing}; install again, {compiler} will build it"
    return f"{missing}, and no C++ compiler is here; install g++ or clang, then this package again"


def _check_import(extra: str) -> Check:
    missing = find_missing(extra)
    if missing:
        return Check(f"extra {extra}", "absent", f"lacking: pip install {' '.join(missing)}")
    return Check(f"extra {extra}", "ok", "there")


def _find_programs(programs: tuple[str, ...]) -> dict[str, str | None]:
    """The places of programs, below KALDI_ROOT or on the PATH; None where there is none."""
    root = os.environ.get("KALDI_ROOT")
    places = ("src/*bin", "tools/openfst/bin")
    directories = [path for place in places for path in Path(root).glob(place)] if root else []
    # Kaldi's folders come first, as its own path.sh puts them.
    path = os.pathsep.join([*map(str, directories), os.environ.get("PATH", "")])
    return {program: shutil.which(program, path=path) for program in programs}


def _check_gmm_scripts() -> Check:
    """Whether local/kaldi_gmm.sh would find what it calls."""
    name, root = "Kaldi's GMMs", os.environ.get("KALDI_ROOT")
    if not root:
        unset = "KALDI_ROOT is not set (only local/kaldi_gmm.sh needs it, or a path.sh)"
        return Check(name, "absent", unset)
    scripts = Path(root, "egs", "wsj", "s5")
    missing = [name for name in GMM_SCRIPTS if not (scripts / name).is_file()]
    missing += [program for program, where in _find_programs(GMM_PROGRAMS).items() if not where]
    if missing:
        lacking = f"{', '.join(missing)} not found (only local/kaldi_gmm.sh needs them)"
        return Check(name, "absent", lacking)
    return Check(name, "ok", f"scripts in {scripts} and their programs: there")


def _check_backend(name: str) -> Check:
    """Whether a decoding backend could be used as it would be called here."""
    trouble = choose_decoder(name, Path(), os.environ.get("decode_cmd", "")).find_trouble()  # noqa: SIM112
    if trouble:
        reason = f"not usable: {trouble} (one backend is enough)"
        return Check(f"decoding by {name}", "absent", reason)
    return Check(f"decoding by {name}", "ok", "usable")


def _check_nist() -> Check:
    """Check that NIST's scorer is there."""
    try:
        program = find_nist_program("hubscr.pl")
        trouble = explain_failure(program)
    except InputError as error:
        program, trouble = "", str(error)
    if trouble:
        reason = f"not usable: {trouble}; runs are scored without it"
        return Check("scoring by NIST", "absent", reason)
    return Check("scoring by NIST", "ok", f"usable: {program}")
