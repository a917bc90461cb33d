"""Files that keep their time where they are written with the content that they have."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bayes_asr.base.files import together
from bayes_asr.decode.graph.ngram import estimate_kneser_ney, write_arpa
from bayes_asr.kaldi_io.text import write_lines, write_mapping, write_text

LONG_AGO = 1_700_000_000_123_456_789
WRITERS: dict[str, Callable[[str, Path], object]] = {
    "lines": lambda word, path: write_lines([word], path),
    "text": lambda word, path: write_text([("utt", [word])], path),
    "mapping": lambda word, path: write_mapping([("utt", word)], path),
    "arpa": lambda word, path: write_arpa(estimate_kneser_ney([[word]], 2), path),
}


def write_long_ago(write: Callable[[str, Path], object], path: Path) -> None:
    write("a", path)
    os.utime(path, ns=(LONG_AGO, LONG_AGO))


@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_written_again_keeps_its_time(writer: str, tmp_path: Path) -> None:
    write, path = WRITERS[writer], tmp_path / "a"
    write_long_ago(write, path)
    content = path.read_bytes()
    write("a", path)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (content, LONG_AGO)
    write("b", path)
    assert path.read_bytes() != content
    assert path.stat().st_mtime_ns > LONG_AGO


def test_file_of_a_group_is_new_since_it_stands_for_others(tmp_path: Path) -> None:
    write_long_ago(WRITERS["lines"], tmp_path / "a")
    with together(tmp_path):
        write_lines(["a"], tmp_path / "a")
        write_lines(["b"], tmp_path / "b")
    assert (tmp_path / "a").stat().st_mtime_ns > LONG_AGO
