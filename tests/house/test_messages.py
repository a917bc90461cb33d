"""Messages of wrong inputs: the file, what is wrong in it, the numbers if any, a remedy."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.decode.align.data_dir import read_seconds
from bayes_asr.decode.graph.lexicon import read_lexicon
from bayes_asr.evaluate.score.nist import read_ctm, read_stm
from bayes_asr.evaluate.score.phones import read_phone_map
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.integers import write_int_vectors
from bayes_asr.kaldi_io.symbols import read_symbols

Read = Callable[[Path], object]
TEXTS: list[tuple[Read, str, str]] = [
    (read_seconds, "rec1 1.5\nrec2 long\n", "rec2 'long'"),
    (read_seconds, "rec2 nan\n", "rec2 'nan'"),
    (read_seconds, "rec2 -1\n", "rec2 '-1'"),
    (read_lexicon, "", ""),
    (read_lexicon, "a b\nword\n", "2: word"),
    (lambda path: read_phone_map(path, 2), "a b\nc d\na d\n", "3: a b d"),
    (read_symbols, "a 1\nb one\n", "2: b one"),
    (read_symbols, "a 1\nb 1\n", "2: b 1"),
    (read_stm, "rec A bob 2 1 word\n", "1: 2.0 1.0"),
    (read_stm, "rec A bob 2\n", "1: 4 5"),
    (read_ctm, "rec A 0 -1 word\n", "1: word -1.0"),
    (read_ctm, "rec A now 1 word\n", "1: 'now'"),
    (read_ctm, "rec A 1\n", "1: 3 5 8"),
]
NAN = np.zeros((3, 2))
NAN[2, 1] = np.nan


def assert_complete(error: InputError, path: Path, facts: Iterable[str]) -> None:
    """The file comes first, the remedy last."""
    problem, mark, remedy = str(error).rpartition("; ")
    assert problem.startswith(str(path))
    assert mark
    assert remedy
    for fact in facts:
        assert fact in problem.removeprefix(str(path)).replace(",", " ").replace(";", " ").split()


@pytest.mark.parametrize(("read", "content", "facts"), TEXTS)
def test_a_table_is_named_with_its_line(
    read: Read, content: str, facts: str, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    path.write_text(content)
    with pytest.raises(InputError) as raised:
        read(path)
    assert_complete(raised.value, path, facts.split())


def test_a_probability_is_named_with_its_word(tmp_path: Path) -> None:
    path = tmp_path / "lexiconp.txt"
    path.write_text("yes 1.0 y e s\nno 1.5 n o\n")
    with pytest.raises(InputError) as raised:
        read_lexicon(path)
    assert_complete(raised.value, path, ["2:", "no", "'1.5'"])


@pytest.mark.parametrize(
    ("values", "facts"), [(np.zeros(3), "u float64 [3]"), (NAN, "u 2 1"), (NAN[:0], "u [0 2]")]
)
def test_a_matrix_that_is_none_is_named(values: np.ndarray, facts: str, tmp_path: Path) -> None:
    path = tmp_path / "feats.ark"
    with pytest.raises(InputError) as raised:
        write_matrices([("u", values)], path)
    assert_complete(raised.value, path, facts.split())


def test_a_vector_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ali.1.gz"
    with pytest.raises(InputError) as raised:
        write_int_vectors([("u", np.zeros(2))], path)
    assert_complete(raised.value, path, ["u", "float64", "[2]"])
