"""Standard streams that are closed, gone, or lack letters; names that are no text."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = [sys.executable, "-m", "bayes_asr"]
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


@pytest.fixture
def texts(tmp_path: Path) -> list[str]:
    (tmp_path / "ref").write_text("u1 grün\nu2 a\u2028b\n", encoding="utf-8")
    (tmp_path / "utt2spk").write_text("u1 jürgen\nu2 \U0001f600\n", encoding="utf-8")
    ref = str(tmp_path / "ref")
    by = ["--by", "speaker", "--utt2spk", str(tmp_path / "utt2spk")]
    return [*PYTHON, "wer", "--ref", ref, "--hyp", ref, *by]


def run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**BUFFERED, **variables}
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


@pytest.mark.slow
def test_letters_that_the_encoding_lacks_are_escaped(texts: list[str]) -> None:
    done = run(texts, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1].endswith(r"] j\u00fcrgen")
    utf8, ascii_ = (run([*texts, "--json"], PYTHONIOENCODING=name) for name in ("utf-8", "ascii"))
    assert json.loads(ascii_.stdout) == json.loads(utf8.stdout)
    assert run(texts, PYTHONIOENCODING="utf-8").stdout.splitlines()[1].endswith("] jürgen")


@pytest.mark.parametrize("closed", ["1>&-", "1>&- 2>&-"])
def test_results_that_nothing_takes_are_a_failure(texts: list[str], closed: str) -> None:
    done = run(["sh", "-c", f'"$@" {closed}', "sh", *texts])
    assert done.returncode == 1
    said = "bayes-asr wer: error: standard output: Bad file descriptor"
    assert done.stderr.splitlines() == ([said] if closed == "1>&-" else [])


def test_full_device_is_a_failure(texts: list[str]) -> None:
    done = run(["sh", "-c", '"$@" > /dev/full', "sh", *texts])
    assert done.returncode == 1
    (said,) = done.stderr.splitlines()
    assert said.startswith("bayes-asr wer: error: standard output: No space left on device; ")


@pytest.mark.parametrize("words", [["config"], ["--help"], ["config", "--explain"]], ids=" ".join)
def test_reader_that_has_gone_is_quiet(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*PYTHON, *words], stdout=writer, stderr=subprocess.PIPE, env=BUFFERED, check=False
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_closed_streams_do_not_lend_their_numbers_to_files(tmp_path: Path) -> None:
    """What is printed must not end in a file that was opened as number 1 or 2."""
    script = "from bayes_asr.cli import main; main(['config']); import os; print(os.open('/', 0))"
    done = run(["sh", "-c", '"$@" 0<&- 2>&-', "sh", sys.executable, "-c", script])
    assert int(done.stdout.splitlines()[-1]) > 2


@pytest.mark.parametrize("verb", ["train", "wer"])
def test_name_that_is_no_text_is_refused(verb: str, tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/o\xff"
    command = [*map(os.fsencode, PYTHON), verb.encode(), b"--out=" + name]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 2
    (said,) = done.stderr.decode("ascii").splitlines()
    assert r"o\udcff' is not UTF-8 text; rename what is called so" in said
    assert not list(tmp_path.iterdir())
