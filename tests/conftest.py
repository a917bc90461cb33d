"""What tests of several rooms ask for."""

import atexit
import functools
import gc
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

from bayes_asr.base import log
from bayes_asr.base.processes.malloc import CACHES
from bayes_asr.cli import main
from bayes_asr.train.start import train
from tests.support.places import CONF, DATA
from tests.support.script_stubs import Checkout
from tests.support.small_corpus import settings, write_corpus
from tests.support.training_runs import OPTIONS, config_of, states

# Scripts ignore SIGINT in what they run in the background, nohup SIGHUP; tests of these need what a
# terminal gives.
for number, usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

# What changes all the same: pytest names the phase of a test, and what is set once for a process,
# here by torch's compiler and by threadpoolctl.
FREE_TO_CHANGE = {
    *("PYTEST_CURRENT_TEST", "TORCHINDUCTOR_CACHE_DIR", "KMP_DUPLICATE_LIB_OK"),
    *CACHES,
}

# Where there is no GPU, torch notes at each seed the stack for the one that may still come.
if not torch.cuda.is_available():
    torch.manual_seed = torch.default_generator.manual_seed

# A slow machine is no fault, and nothing is kept from one run of the tests to the next.
hypothesis.settings.register_profile("busy", deadline=None, database=None, max_examples=60)
hypothesis.settings.load_profile("busy")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without looking for garbage: all that is made, now and by imports, stays.

    Later it is looked for seldom: exports and trainings make many objects at once.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.enable()
    gc.set_threshold(10_000, 20, 20)
    atexit.register(gc.unfreeze)  # for libraries that count at the end what is left


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with tests that may take many minutes: no process waits for them alone at the end."""
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)


@pytest.fixture(autouse=True)
def unchanged_environment() -> Iterator[None]:
    """Fail a test that leaves os.environ changed, and put back what it was for the next one.

    `monkeypatch` and other fixtures of a test come later, so they are undone by then.
    """
    before = dict(os.environ)
    yield
    changed = {name for name, _ in before.items() ^ os.environ.items()} - FREE_TO_CHANGE
    for name in changed:
        os.environ.pop(name, None)
    os.environ.update({name: before[name] for name in changed & before.keys()})
    assert not changed, f"os.environ is left changed: {', '.join(sorted(changed))}"


def existing(path: Path) -> Path:
    """Return `path`, or skip the test and say what is missing."""
    if not path.exists():
        pytest.skip(f"real data is absent: {path} (set BAYES_ASR_DATA)")
    return path


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real speech and real Kaldi output."""
    return existing(DATA)


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of NIST and AMI golden results."""
    return existing(DATA.parent / "golden")


@pytest.fixture(scope="session")
def kaldi_corpus(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Lay out a Kaldi directory (`timit_sample` or `an4`) with valid scp paths, once a session."""
    destination = tmp_path_factory.mktemp("kaldi")

    def lay_out(corpus: str) -> Path:
        link = existing(DATA / "kaldi" / "link")
        if not (destination / corpus).exists():
            subprocess.run([link, destination, corpus], check=True)
        return destination / corpus

    return lay_out


@pytest.fixture(scope="session")
def small_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up Kaldi directory, not to be changed."""
    return write_corpus(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def small_run(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run trained on the made-up corpus by the command line, not to be changed."""
    run = tmp_path_factory.mktemp("run") / "small"
    assert main(["train", str(CONF / "base.yaml"), *settings(small_corpus), f"--out={run}"]) == 0
    return run


@pytest.fixture(scope="session")
def undisturbed(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a run has learnt that nothing happened to."""
    run = tmp_path_factory.mktemp("undisturbed")
    train(config_of(small_corpus, *OPTIONS), run)
    return states(run)


@pytest.fixture(scope="session")
def quick_onnx() -> Iterator[None]:
    """Exports to ONNX for which onnxscript parses its own functions once, and not for each."""
    made = pytest.importorskip("onnxscript").values.TracedOnnxFunction
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(made, "function_ir", property(functools.cache(made.function_ir.fget)))
        yield


@pytest.fixture(autouse=True)
def log_of_test(unchanged_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that no earlier test has led to a screen of its own."""
    monkeypatch.setattr(log.LOGGER, "handlers", [])


@pytest.fixture
def messages(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is logged, as one string when asked."""
    monkeypatch.setattr(log.LOGGER, "propagate", True)
    caplog.set_level("INFO", "bayes_asr")
    return lambda: caplog.text


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A copy of the scripts in an environment of stubs."""
    return Checkout(tmp_path)


@pytest.fixture
def set_threads() -> Iterator[Callable[[int], None]]:
    """Set the number of torch's threads; it is what it was after the test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
