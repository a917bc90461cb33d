"""The files of an index: what they hold, and that damaged ones are made again."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.data.corpus.index import Index
from bayes_asr.data.corpus.labels_index import index_alignments
from bayes_asr.data.targets.alignments import Alignments
from bayes_asr.kaldi_io.ark import iter_int_vectors
from bayes_asr.kaldi_io.vectors import StoredVectors, write_vectors
from tests.support.small_corpus import write_corpus

words = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\v\f\0"), min_size=1
)
MADE = {"names": np.array([b"a", b"bc"]), "lengths": np.arange(2), "digest": np.array("x")}
vectors = st.lists(st.integers(-(2**31), 2**31 - 1)).map(lambda x: np.array(x, np.int32))


@pytest.fixture
def index_file(tmp_path: Path) -> Path:
    """A file of an index, of MADE."""
    Index(tmp_path / "made").of("name", {}, lambda _: MADE, lambda *_: None)
    return tmp_path / "made/name.npz"


@pytest.mark.slow
@given(st.dictionaries(words, vectors))
def test_stored_vectors_are_those_that_were_written_and_that_others_read(
    tmp_path_factory: pytest.TempPathFactory, items: dict[str, np.ndarray]
) -> None:
    ark = tmp_path_factory.mktemp("vectors") / "x.ark"
    stored = StoredVectors(ark, write_vectors(items.items(), ark))
    assert list(stored) == sorted(items)
    assert stored.lengths == {name: len(vector) for name, vector in items.items()}
    for name, vector in iter_int_vectors(ark):
        np.testing.assert_array_equal(vector, items[name])
        np.testing.assert_array_equal(stored[name], vector)
        assert stored[name].dtype == np.int32


def test_changed_byte_of_the_archive_is_found_when_it_is_read(tmp_path: Path) -> None:
    ark = tmp_path / "x.ark"
    items = {"a": np.arange(5, dtype=np.int32), "b": np.arange(7, dtype=np.int32)}
    stored = StoredVectors(ark, write_vectors(items.items(), ark))
    raw = bytearray(ark.read_bytes())
    raw[-2] ^= 1
    ark.write_bytes(raw)
    np.testing.assert_array_equal(stored["a"], items["a"])
    with pytest.raises(InputError, match=r"x.ark: b is not what was written; remove this file"):
        stored["b"]


def test_stored_alignments_are_those_in_memory(tmp_path: Path) -> None:
    directory = write_corpus(tmp_path / "corpus") / "exp" / "ali"
    memory = Alignments(directory)
    for _ in range(2):  # made, and found
        stored = index_alignments(directory, Index(tmp_path / "index"))
        assert stored.lengths == memory.lengths
        assert stored.digest == memory.digest
        for utt, transition_ids in memory.items():
            np.testing.assert_array_equal(dict(stored.items())[utt], transition_ids)
            np.testing.assert_array_equal(stored.pdfs(utt), memory.pdfs(utt))
            np.testing.assert_array_equal(stored.monophones(utt), memory.monophones(utt))


@pytest.mark.slow
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_file_of_the_index_with_any_other_byte_is_made_again(
    data: st.DataObject, index_file: Path
) -> None:
    """Among them the version of the zip file, and the names and types in NumPy's headers."""
    raw = bytearray(index_file.read_bytes())
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.just(len(raw)) | st.integers(0, len(raw)))
    damaged = index_file.with_name("damaged.npz")
    damaged.write_bytes(raw[:cut] + data.draw(st.binary(max_size=20)))
    made = Index(damaged.parent).of("damaged", {}, lambda _: MADE, lambda _, found: found)
    assert made is MADE
    found = Index(damaged.parent).of("damaged", {}, pytest.fail, lambda _, found: found)
    assert found.keys() == MADE.keys()
    for name, array in MADE.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    "arrays",
    [{}, {"made_from": np.array("[]")}, {"made_from": np.array([None])}, {"a": np.array([{}])}],
)
def test_file_of_the_index_that_another_program_wrote_is_made_again(
    arrays: dict[str, np.ndarray], tmp_path: Path
) -> None:
    np.savez(tmp_path / "name.npz", **arrays)  # type: ignore[arg-type]
    made = Index(tmp_path).of("name", {}, lambda _: MADE, lambda _, found: found)
    assert made is MADE
