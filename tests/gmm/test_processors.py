"""GMM training and features give the same bytes on processors that have less, and with any BLAS."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.golden_data import write_few
from tests.support.mixtures import golden_gmms
from tests.support.places import ROOT

TRAINING = """
import hashlib, sys
from pathlib import Path
import numpy as np
from bayes_asr.gmm import clusterable
from bayes_asr.gmm.progress import PROGRESS_FILE
from bayes_asr.data.sound.spectrum import Analysis
from tests.gmm.test_training import SCHEDULES, train_few

clusterable.TRIES = 1  # start instead of ten
few = Path(sys.argv[1])
x = np.random.default_rng(0).normal(size=(300, 300))
print(hashlib.sha256((np.exp(x) @ np.log(x * x)).tobytes()).hexdigest())
for name in SCHEDULES:
    for file, content in sorted(train_few(few, name, Path(sys.argv[2]) / name).items()):
        if file != PROGRESS_FILE:
            print(name, file, hashlib.sha256(content).hexdigest())
noise = np.random.default_rng(0).normal(scale=1000, size=16000).astype(np.float32)
for kind in ("mfcc", "fbank"):
    print(kind, hashlib.sha256(Analysis(kind)(noise).tobytes()).hexdigest())
"""
PROCESSORS = {  # what of this one NumPy, its BLAS and the C library are told to use
    "Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "Sandybridge": {
        "OPENBLAS_CORETYPE": "Sandybridge",
        "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR AVX2 FMA3 AVX512F",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F",
    },
}


def train(few: Path, out: Path, processor: dict[str, str]) -> list[str]:
    """Hashes: of what NumPy makes here, of each file of four trainings, of features of noise."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TRAINING, few, out],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | processor,
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a dozen utterances of the golden data."""
    golden_gmms()  # skips where they are absent
    folder = tmp_path_factory.mktemp("few")
    write_few(folder / "data")
    return folder


@pytest.fixture(scope="module")
def here(few: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What this processor makes of it with all that it has."""
    return train(few, tmp_path_factory.mktemp("here"), {})


@pytest.mark.slow
@pytest.mark.parametrize("processor", PROCESSORS)
def test_files_are_the_same_on_every_processor(
    processor: str, few: Path, here: list[str], tmp_path: Path
) -> None:
    numpys, *ours = train(few, tmp_path, PROCESSORS[processor])
    assert sum("final.mdl" in line for line in ours) == 4
    assert ours == here[1:]
    if numpys == here[0]:
        pytest.skip(f"NumPy computes as on {processor} anyway, so that nothing was left out")
