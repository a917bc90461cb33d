"""Text tables and data directories: every odd line has a defined outcome."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io import binary, byte_reader
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.data_dir import read_data_dir
from bayes_asr.kaldi_io.segments import read_segments, read_sides
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.text import read_mapping, read_text, write_mapping, write_text

# Kaldi separates by ASCII white space only: a no-break space belongs to a word.
words = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\v\f\0"), min_size=1
)


def table(folder: Path, content: bytes) -> Path:
    path = folder / "table"
    path.write_bytes(content)
    return path


@given(st.dictionaries(words, st.lists(words)))
def test_text_round_trips(tmp_path_factory: pytest.TempPathFactory, items: dict) -> None:
    path = tmp_path_factory.mktemp("text") / "text"
    assert write_text(items.items(), path) == len(items)
    assert list(read_text(path).items()) == [
        (utt.removeprefix("\ufeff") if number == 0 else utt, words)
        for number, (utt, words) in enumerate(items.items())
    ]


@given(st.dictionaries(words, words))
def test_mappings_round_trip(tmp_path_factory: pytest.TempPathFactory, items: dict) -> None:
    items = {"first": "line", **items}
    path = tmp_path_factory.mktemp("text") / "utt2spk"
    assert write_mapping(items.items(), path) == len(items)
    assert read_mapping(path) == items


def test_windows_line_ends_blank_lines_and_a_byte_order_mark(tmp_path: Path) -> None:
    content = "\ufeffu1  das\tHaus\u00a0am See \r\n\r\n \nu2\r\nu3 x".encode()
    expected = {"u1": ["das", "Haus\u00a0am", "See"], "u2": [], "u3": ["x"]}
    assert read_text(table(tmp_path, content)) == expected


@pytest.mark.parametrize("read", [read_text, read_mapping, read_symbols])
@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"a 1\nb 2\na 3\n", "line 3: a is there a second time"),
        (b"a 1\n\nb \xe4\n", "line 3: not UTF-8"),
        (b"a 1\nb\0 2\n", "line 2: holds a zero byte"),
    ],
)
def test_repeated_keys_and_other_encodings(
    tmp_path: Path, read: Callable[[Path], dict], content: bytes, part: str
) -> None:
    path = table(tmp_path, content)
    with pytest.raises(InputError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}, {part}")


@pytest.mark.parametrize("line", [b"u1", b"u1 a b"])
def test_a_mapping_has_two_columns(tmp_path: Path, line: bytes) -> None:
    with pytest.raises(InputError, match=r"line 2: u1 has [13] fields, not 2"):
        read_mapping(table(tmp_path, b"u0 a\n" + line + b"\n"))


@pytest.mark.parametrize(
    "line", ["a", "a b", "a -1", "a 1 2", "a 1.0", "a ²", "a 1_0", "a " + "9" * 5000]
)
def test_a_symbol_has_an_id(tmp_path: Path, line: str) -> None:
    with pytest.raises(InputError, match="line 2: not a symbol and its id"):
        read_symbols(table(tmp_path, f"<eps> 0\n{line}\n".encode()))


def test_symbols(tmp_path: Path) -> None:
    assert read_symbols(table(tmp_path, b"<eps> 0\nb 7\n#0 3\n")) == {"<eps>": 0, "b": 7, "#0": 3}
    with pytest.raises(InputError, match="line 3: c has the id 7 of line 2"):
        read_symbols(table(tmp_path, b"<eps> 0\nb 7\nc 7\n"))


def test_a_gzipped_table(tmp_path: Path) -> None:
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"u1 a b\n"))
    assert read_text(tmp_path / "text.gz") == {"u1": ["a", "b"]}


@given(
    st.lists(
        st.sampled_from([b"a", b"\xc3\xa9", b"\xc2\xa0", b"\x1c", b" ", b"\t", b"\r\n", b"\n"])
    ),
    st.sampled_from([-1, 1]),
    st.integers(1, 9),
)
def test_fields_are_those_between_ascii_white_space_wherever_a_block_ends(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], splits: int, block: int
) -> None:
    path = table(tmp_path_factory.mktemp("lines"), b"".join(parts))
    expected = [
        (number, [field.decode() for field in line.strip().split(None, splits)])
        for number, line in enumerate(path.read_bytes().split(b"\n"), 1)
        if line.strip()
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_reader, "BLOCK", block)
        assert list(binary.iter_lines(path, splits)) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"u1 a\nu2 b\ru3 c\n", "line 2: holds a carriage return"),
        (b"u1 a\ru2 b\r", "line 1: holds a carriage return"),
        ("u1 \u00e9\ru2 b\n".encode(), "line 1: holds a carriage return"),
        (gzip.compress(b"u1 a\n", mtime=0), r"is gzipped; unpack it, or name it FILE\.gz"),
        (b"PK\3\4" + bytes(20), "is an office document or an archive; save its text"),
        (b"%PDF-1.7\n%\xe2\xe3", "is a PDF"),
        (b"{\\rtf1\\ansi u1 a}", "is an RTF document"),
    ],
)
def test_what_is_no_plain_text_is_told(tmp_path: Path, content: bytes, message: str) -> None:
    for read in (read_text, read_mapping):
        with pytest.raises(InputError, match=message):
            read(table(tmp_path, content))


def test_carriage_returns_at_the_end_of_a_line_stay_accepted(tmp_path: Path) -> None:
    path = table(tmp_path, b"u1 a\r\r\nu2 b \r \nu3 c\r")
    assert read_text(path) == {"u1": ["a"], "u2": ["b"], "u3": ["c"]}


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_text(tmp_path / "nowhere")


def test_writing_leaves_what_stood_when_it_fails(tmp_path: Path) -> None:
    path = table(tmp_path, b"old\n")

    def failing() -> object:
        yield "u1", ["a"]
        raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError):
        write_text(failing(), path)
    assert path.read_bytes() == b"old\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("corpus", "set_name", "utterances", "speakers"),
    [("timit_sample", "train", 80, 10), ("timit_sample", "dev", 16, 2), ("an4", "test", 130, 10)],
)
def test_the_data_directories_of_kaldi(
    kaldi_corpus: Callable[[str], Path], corpus: str, set_name: str, utterances: int, speakers: int
) -> None:
    data = read_data_dir(kaldi_corpus(corpus) / "data" / set_name)
    assert data.feats is not None
    assert data.text is not None
    assert data.cmvn is not None
    assert list(data.feats) == list(data.utt2spk)
    assert set(data.text) == set(data.utt2spk)
    assert (len(data.feats), len(data.cmvn)) == (utterances, speakers)
    assert set(data.utt2spk.values()) == set(data.cmvn)


def data_dir(folder: Path) -> Path:
    matrix = np.ones((2, 3), np.float32)
    write_matrices([("u1", matrix), ("u2", matrix)], folder / "x.ark", folder / "feats.scp")
    (folder / "utt2spk").write_text("u1 s\nu2 s\n")
    return folder


def test_absent_files_of_a_data_directory(tmp_path: Path) -> None:
    data = read_data_dir(data_dir(tmp_path))
    assert (data.text, data.cmvn) == (None, None)
    assert list(data.feats or {}) == ["u1", "u2"]
    (tmp_path / "utt2spk").unlink()
    with pytest.raises(FileNotFoundError, match="utt2spk"):
        read_data_dir(tmp_path)


@pytest.mark.parametrize("name", ["feats.scp", "text"])
def test_utterances_without_a_speaker_are_named(tmp_path: Path, name: str) -> None:
    path = data_dir(tmp_path) / name
    path.write_text("u1 x\nu8 x\nu9 x\n")
    with pytest.raises(InputError) as error:
        _ = read_data_dir(tmp_path).text
    expected = "2 of 3 utterances are not in utt2spk, the first is u8; add their speakers"
    assert str(error.value) == f"{path}: {expected}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("u r 0 1 0 x", "with times in seconds, and a channel .*: u r 0 1 0 x"),
        ("u r 0 1 -3", "with times in seconds, and a channel counted from 0 .*: u r 0 1 -3"),
        ("u r 0 1_0", "with times in seconds.*: u r 0 1_0"),
        ("u r 0 \u0661", "with times in seconds.*: u r 0"),
        ("u r 0 eins", "with times in seconds.*: u r 0 eins"),
        ("u r 2 1", "u from 2 to 1 s; correct it"),
        ("a r 1 2", "a is there a second time; keep one line"),
    ],
)
def test_what_is_wrong_with_a_segment_is_told(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "segments").write_text(f"a r 0 -1\n{line}\n")
    with pytest.raises(InputError, match=f"segments, line 2: .*{message}"):
        list(read_segments(tmp_path / "segments"))


def test_a_recording_has_one_side(tmp_path: Path) -> None:
    path = table(tmp_path, b"r talk A\nq talk B\n")
    assert read_sides(path) == {"q": "B"}
    table(tmp_path, b"r talk A\nq talk B\nr talk B\n")
    with pytest.raises(InputError, match="line 3: r is there a second time"):
        read_sides(path)
