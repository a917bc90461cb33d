"""Input from strangers: bombs do not go off; a disk that is really full leaves nothing behind."""

import gzip
import os
import re
import shutil
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from bayes_asr.base import files
from bayes_asr.base.errors import InputError
from bayes_asr.decode.search.search_record import read_record
from bayes_asr.kaldi_io import byte_reader, integers
from bayes_asr.kaldi_io.ark import iter_int_vectors, iter_matrices
from bayes_asr.kaldi_io.fst import read_fst
from bayes_asr.kaldi_io.lattice_files import iter_lattices
from bayes_asr.kaldi_io.side_files import read_json
from bayes_asr.kaldi_io.text import read_text
from tests.support.places import ROOT

MANY = b"".join(b"u%06d 1\n" % number for number in range(30_000))


OWN = {  # of the package, or written by what it has just started
    "base/files.py": "opens for all others",
    "base/jobs.py": "logs of programs that it started",
    "cli/run.py": "run.sh of the package",
    "config/explain.py": "configurations of the package",
    "config/schema.py": "a file that it replaces",
    "data/sound/audio.py": "standard input",
    "data/sound/containers.py": "bytes that were read",
    "decode/search/kaldi.py": "logs of programs that it started",
    "evaluate/decoded/run.py": "a CTM that it has just written",
    "evaluate/score/hubscr.py": "tables that it has just had written",
}


def exhaust(read: Callable) -> Callable[[Path], None]:
    def all_of_it(path: Path) -> None:
        for _ in read(path):
            pass

    return all_of_it


def test_files_of_users_are_opened_in_one_place() -> None:
    """`base.files` refuses devices and pipes without a writer, and finishes replacements."""
    opens = re.compile(r"\.read_(bytes|text)\(|\bopen\(([^)]*, )?['\"]rb?['\"]|\.open\(\)")
    found = {
        str(file.relative_to(ROOT / "bayes_asr"))
        for file in (ROOT / "bayes_asr").rglob("*.py")
        if opens.search(file.read_text())
    }
    assert found == OWN.keys()


@pytest.mark.parametrize(
    ("content", "read"),
    [
        (b"u1 " + b"7 " * 400_000 + b"\n", exhaust(iter_int_vectors)),
        (b"u1 \0B\4\0\0\4\0" + bytes(1 << 20), exhaust(iter_int_vectors)),
        (MANY, read_text),
        (b"u1  [\n" + b"1 " * 400_000 + b"]\n", exhaust(iter_matrices)),
        (b"u1 \0BFM \4\0\0\1\0\4\4\0\0\0" + bytes(1 << 20), exhaust(iter_matrices)),
        (bytes(1 << 20), exhaust(iter_lattices)),
        (bytes.fromhex("d6fdb27e06000000766563746f72") + bytes(1 << 20), read_fst),
    ],
    ids=["long vector", "vector", "text", "text matrix", "matrix", "lattice", "fst"],
)
def test_gzip_bombs_are_refused_before_they_expand(
    content: bytes, read: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a hundredth of the room that readers give, to bombs of a hundredth of the size."""
    monkeypatch.setattr(byte_reader, "ALWAYS_ALLOWED", 1 << 17)
    monkeypatch.setattr(byte_reader, "MOST_EXPANSION", 2)
    monkeypatch.setattr(byte_reader, "LONGEST_LINE", 1 << 17)
    monkeypatch.setattr(integers, "MOST_INTEGERS", 1 << 15)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(content))
    assert path.stat().st_size < (1 << 19)
    tracemalloc.start()
    with pytest.raises(InputError, match=r"bomb\.gz: "):
        read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 << 20


@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}"])
def test_process_substitution_may_be_silent_for_long(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "WAIT", 0.01)
    end, begin = os.pipe()
    later = threading.Timer(0.1, lambda: (os.write(begin, b"u1 a b\n"), os.close(begin)))
    later.start()
    assert read_text(Path(name.format(end))) == {"u1": ["a", "b"]}
    later.join()
    os.close(end)


@pytest.mark.slow
def test_disk_that_is_really_full(small_run: Path, tmp_path: Path) -> None:
    """A file system of 4 KiB in memory, in a name space of its own."""
    if not shutil.which("unshare"):
        pytest.skip("there is no unshare to mount a small file system with")
    out = tmp_path / "out"
    out.mkdir()
    mount = f"mount -t tmpfs -o size=4k none {out}"
    probe = subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True)
    if probe.returncode:
        pytest.skip(f"mounting is not allowed here: {probe.stderr.decode().strip()}")
    script = (
        f"{mount} && {sys.executable} -m bayes_asr forward {small_run} --on train --out {out}/a"
    )
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f"{script}; status=$?; find {out} -type f; exit $status"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 1
    expected = f"error: {out}/a/loglikes.ark: No space left on device; free some space"
    assert expected in done.stderr.splitlines()[-1]
    assert done.stdout == ""


@pytest.mark.parametrize("content", [b'["\xed\xa0\x80"]', b"[" * 100_000, b"["])
def test_json_that_is_none_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.json: not JSON: "):
        read_json(tmp_path / "a.json")


def test_a_record_with_half_of_a_surrogate_pair_is_refused(tmp_path: Path) -> None:
    (tmp_path / "decode.json").write_text(r'{"graph": "\ud800"}')
    with pytest.raises(InputError, match=r"decode\.json: not a record of a decoding"):
        read_record(tmp_path)


def test_paths_of_users_are_resolved_where_links_lead_in_a_circle() -> None:
    resolved = re.compile(r"\w\.resolve\(\)|Path\.resolve[,)]")
    scripts = [*(ROOT / "bayes_asr").rglob("*.py"), *(ROOT / "recipes").rglob("*.py")]
    found = [path for path in scripts if resolved.search(path.read_text())]
    assert not found, "Path.resolve raises RuntimeError there; take base.files.real_path"
