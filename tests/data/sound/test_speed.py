"""Speech at other speeds: resampling against scipy, tables against Kaldi's script, refusals."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy  # which imports its parts as they are used
import soundfile

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.data.sound.audio import change_speed, split_speed
from bayes_asr.data.sound.speed import write_speeds
from bayes_asr.kaldi_io.ark import read_matrix, read_scp
from tests.support.archives import one_line

RATE = 16000


def tone(hertz: float, seconds: float = 1.0) -> np.ndarray:
    return np.sin(2 * np.pi * hertz * np.arange(int(seconds * RATE)) / RATE).astype(np.float32)


def write_data(root: Path, *, segments: bool = False) -> Path:
    """Two utterances of two speakers; with segments, of one recording."""
    data = root / "data"
    data.mkdir(parents=True)
    for name, hertz in (("a", 300), ("b", 500)):
        soundfile.write(data / f"{name}.wav", 0.5 * tone(hertz), RATE)
    if segments:
        (data / "wav.scp").write_text(f"rec {data}/a.wav\n")
        (data / "segments").write_text("a-1 rec 0.1 0.55\nb-1 rec 0.5 -1\n")
        (data / "reco2file_and_channel").write_text("rec rec A\n")
        (data / "reco2dur").write_text("rec 1.0\n")
    else:
        (data / "wav.scp").write_text(f"a-1 {data}/a.wav\nb-1 {data}/b.wav\n")
        (data / "utt2dur").write_text("a-1 1.0\nb-1 1\n")
    (data / "utt2spk").write_text("a-1 a\nb-1 b\n")
    (data / "text").write_text("a-1 one two\nb-1\n")
    (data / "spk2gender").write_text("a f\nb m\n")
    return data


@pytest.mark.parametrize("factor", ["0.9", "1.1", "0.5", "2", "0.87"])
def test_samples_are_those_of_scipy_and_as_many_as_sox_gives(factor: str) -> None:
    x = np.random.default_rng(1).standard_normal(4321).astype(np.float32)
    exact = Fraction(factor)
    found = change_speed(x, exact)
    expected = scipy.signal.resample_poly(x.astype(np.float64), exact.denominator, exact.numerator)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert abs(len(found) - len(x) / float(factor)) <= 1
    assert found.dtype == np.float32


@pytest.mark.parametrize("factor", [Fraction(9, 10), Fraction(11, 10)])
def test_a_tone_gets_higher_as_it_gets_faster(factor: Fraction) -> None:
    """It is the tone of that frequency, away from the ends."""
    found = change_speed(tone(400), factor)
    expected = np.sin(2 * np.pi * 400 * float(factor) * np.arange(len(found)) / RATE)
    inner = slice(500, -500)
    np.testing.assert_allclose(found[inner], expected[inner], atol=2e-3)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_tables_are_those_of_kaldis_script(tmp_path: Path) -> None:
    """utils/data/perturb_data_dir_speed_3way.sh: names, durations, utt2uniq, order."""
    data, out = write_data(tmp_path), tmp_path / "out"
    assert main(["speed", str(data), str(out), "--factors", "0.9", "1.0", "1.1"]) == 0
    assert lines(out / "utt2spk") == [
        *("a-1 a", "b-1 b"),
        *("sp0.9-a-1 sp0.9-a", "sp0.9-b-1 sp0.9-b"),
        *("sp1.1-a-1 sp1.1-a", "sp1.1-b-1 sp1.1-b"),
    ]
    assert lines(out / "spk2utt")[2] == "sp0.9-a sp0.9-a-1"
    assert lines(out / "wav.scp")[::2] == [
        f"a-1 {data}/a.wav",
        f"sp0.9-a-1 {data}/a.wav[speed=0.9]",
        f"sp1.1-a-1 {data}/a.wav[speed=1.1]",
    ]
    assert lines(out / "text")[2:4] == ["sp0.9-a-1 one two", "sp0.9-b-1"]
    assert lines(out / "utt2uniq")[4] == "sp1.1-a-1 a-1"
    assert lines(out / "spk2gender")[5] == "sp1.1-b m"
    assert lines(out / "utt2dur") == [
        *("a-1 1.0", "b-1 1"),
        *("sp0.9-a-1 1.111111", "sp0.9-b-1 1.111111"),
        *("sp1.1-a-1 0.909091", "sp1.1-b-1 0.909091"),
    ]


@pytest.mark.parametrize("name", ["text_words", "words", "utt2lang", "utt2word", "utt2age"])
def test_what_else_is_said_of_utterances_comes_along(name: str, tmp_path: Path) -> None:
    """As `text`: transcripts in other units, and what a network may classify."""
    data, out = write_data(tmp_path), tmp_path / "out"
    (data / name).write_text("a-1 One  two\nb-1 x\n")
    write_speeds(data, out, [Fraction("0.9"), Fraction(1)])
    assert lines(out / name) == ["a-1 One two", "b-1 x", "sp0.9-a-1 One two", "sp0.9-b-1 x"]


OTHERS = {
    **dict.fromkeys(("utt2num_frames", "utt2len", "utt2max_frames"), b"a-1 98\nb-1 98\n"),
    "utt2reco": b"a-1 a-1\nb-1 b-1\n",
    "spk2utt_fake": b"a a-1\nb b-1\n",
    "spk2warp": b"a 1.1\nb 0.9\n",
    "utt2spk.bak": b"a-1 a\nb-1 b\n",
    "text.bak": b"a-1 one\n",
    "text_embeddings.npz": b"PK\x03\x04\xff\xfe\n",
    "text_ids.pkl": b"\x80\x04\xff\n",
}


def test_what_may_be_other_at_another_speed_is_named_and_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lengths, tables whose values name utterances, and files that are no tables."""
    data, out = write_data(tmp_path), tmp_path / "out"
    for name, content in OTHERS.items():
        (data / name).write_bytes(content)
    (data / "words").mkdir()
    assert main(["speed", str(data), str(out)]) == 0
    written = ("wav.scp", "utt2spk", "spk2utt", "utt2uniq", "speed_of")
    taken = ("text", "utt2dur", "spk2gender")
    assert {path.name for path in out.iterdir()} == {*written, *taken}
    (said,) = (line for line in capsys.readouterr().err.splitlines() if "not taken" in line)
    assert f"{data}: not taken: a.wav, b.wav, {', '.join(sorted(OTHERS))}" in said


def test_times_of_segments_are_those_of_the_new_sound(tmp_path: Path) -> None:
    data, out = write_data(tmp_path, segments=True), tmp_path / "out"
    write_speeds(data, out, [Fraction("0.9")])
    assert lines(out / "segments") == [
        "sp0.9-a-1 sp0.9-rec 0.111111 0.611111",
        "sp0.9-b-1 sp0.9-rec 0.555556 -1",
    ]
    assert lines(out / "reco2file_and_channel") == ["sp0.9-rec rec A"]
    assert lines(out / "reco2dur") == ["sp0.9-rec 1.111111"]


@pytest.mark.parametrize("segments", [False, True])
def test_features_are_those_of_sound_that_was_resampled_before(
    segments: bool, tmp_path: Path
) -> None:
    pytest.importorskip("kaldi_native_fbank")
    data, out = write_data(tmp_path, segments=segments), tmp_path / "out"
    assert main(["speed", str(data), str(out)]) == 0
    assert main(["features", str(out), "--kind", "fbank"]) == 0
    plain = write_data(tmp_path / "plain", segments=segments)
    for sound in plain.glob("*.wav"):
        samples, _ = soundfile.read(sound, dtype="float32")
        soundfile.write(sound, scipy.signal.resample_poly(samples, 10, 9), RATE, subtype="FLOAT")
    if segments:
        times = f"a-1 rec {0.1 / 0.9:.6f} {0.55 / 0.9:.6f}\nb-1 rec {0.5 / 0.9:.6f} -1\n"
        (plain / "segments").write_text(times)
    assert main(["features", str(plain), "--kind", "fbank"]) == 0
    ours, theirs = (read_scp(folder / "feats.scp") for folder in (out, plain))
    assert len(ours) == 6
    for utt in ("a-1", "b-1"):
        slow, plain_one, fast = (
            read_matrix(ours[f"{prefix}{utt}"], utt) for prefix in ("sp0.9-", "", "sp1.1-")
        )
        expected = read_matrix(theirs[utt], utt)
        np.testing.assert_allclose(slow, expected, atol=2e-2)
        assert len(slow) > len(plain_one) > len(fast)


@pytest.mark.parametrize(
    ("options", "differing"),
    [
        ("--dither=1", []),
        ("", ["--dither 1.0"]),
        ("--bands=30", ["--bands 23", "--dither 1.0"]),
        ("--kind=fbank", []),
    ],
)
def test_other_features_than_those_of_the_source_are_announced(
    options: str, differing: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where both are moved together; those of another kind are for another network."""
    pytest.importorskip("kaldi_native_fbank")
    data = write_data(tmp_path / "first")
    write_speeds(data, tmp_path / "first/out", [Fraction("0.9"), Fraction(1)])
    assert main(["features", str(data), "--dither=1"]) == 0
    moved = (tmp_path / "first").rename(tmp_path / "moved")
    table = moved / "out/wav.scp"
    table.write_text(table.read_text().replace(str(data), str(moved / "data")))
    capsys.readouterr()
    assert main(["features", str(moved / "out"), *options.split()]) == 0
    announced = capsys.readouterr().err.splitlines()
    assert all(f"{moved}/data have" in line for line in announced)
    assert [line[line.index("--") :] for line in announced] == differing


def test_speeds_multiply(tmp_path: Path) -> None:
    data = write_data(tmp_path)
    write_speeds(data, tmp_path / "once", [Fraction("0.9")])
    write_speeds(tmp_path / "once", tmp_path / "twice", [Fraction("1.1")])
    assert lines(tmp_path / "twice" / "wav.scp")[0] == (f"sp1.1-sp0.9-a-1 {data}/a.wav[speed=0.99]")
    assert lines(tmp_path / "twice" / "utt2uniq")[0] == "sp1.1-sp0.9-a-1 a-1"
    assert split_speed("x.wav[speed=0.99]") == ("x.wav", Fraction(99, 100))


def spoil_with_pipe(data: Path) -> None:
    (data / "wav.scp").write_text(f"a-1 touch {data}/executed |\n")


@pytest.mark.parametrize(
    ("factors", "spoil", "message"),
    [
        (["0.9", "0.90"], lambda data: None, "a speed is there twice: 0.9, 0.9"),
        (["0.12345"], lambda data: None, "with at most 3 digits after the point"),
        (["0.9"], spoil_with_pipe, "refusing to run the command"),
        (["0.9"], lambda data: (data / "utt2dur").write_text("a-1 x\n"), "of a-1 is x"),
        (["0.9"], lambda data: (data / "wav.scp").unlink(), "wav.scp"),
        (["0.9"], lambda data: (data / "segments").write_text("a-1 rec 1\n"), "line 1: not `utt"),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_nothing(
    factors: list[str], spoil: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    data = write_data(tmp_path)
    spoil(data)
    with pytest.raises((InputError, OSError), match=message):
        write_speeds(data, tmp_path / "out", list(map(Fraction, factors)))
    assert not (data / "executed").exists()
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_names_that_two_speeds_would_share_are_refused(tmp_path: Path) -> None:
    data = write_data(tmp_path)
    (data / "utt2spk").write_text("a-1 a\nsp0.9-a-1 sp0.9-a\n")
    with pytest.raises(InputError, match="some names begin with sp already"):
        write_speeds(data, tmp_path / "out", [Fraction(1), Fraction("0.9")])


@pytest.mark.parametrize("linked", [False, True])
def test_a_folder_that_is_read_is_not_written_to(linked: bool, tmp_path: Path) -> None:
    data = out = write_data(tmp_path)
    if linked:
        (out := tmp_path / "link").symlink_to(data)
    old = {path.name: path.read_bytes() for path in data.iterdir()}
    with pytest.raises(InputError, match=f"{out}: holds what is read"):
        write_speeds(data, out, [Fraction("0.9")])
    assert {path.name: path.read_bytes() for path in data.iterdir()} == old


def test_tables_that_the_speech_has_no_more_are_removed(tmp_path: Path) -> None:
    """Segments of an older call would cut recordings that are not there."""
    older, out = write_data(tmp_path / "older", segments=True), tmp_path / "out"
    (older / "text_words").write_text("a-1 one\n")
    write_speeds(older, out, [Fraction("0.9")])
    (out / "notes").write_text("mine")
    data = write_data(tmp_path)
    write_speeds(data, out, [Fraction("0.9")])
    write_speeds(data, tmp_path / "new", [Fraction("0.9")])
    new = {path.name: path.read_text() for path in (tmp_path / "new").iterdir()}
    assert {path.name: path.read_text() for path in out.iterdir()} == {**new, "notes": "mine"}


@pytest.mark.parametrize("of_kaldi", [False, True])
def test_tables_of_a_folder_that_others_wrote_are_not_removed(
    of_kaldi: bool, tmp_path: Path
) -> None:
    """Kaldi's script writes utt2uniq too; a folder that has no more than is written is taken."""
    data, out = write_data(tmp_path), write_data(tmp_path / "mine", segments=True)
    (out / "text_words").write_text("a-1 one\n")
    if of_kaldi:
        (out / "utt2uniq").write_text("a-1 a-1\nb-1 b-1\n")
    old = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(InputError, match=f"^{out}: has .*which {data} lacks") as raised:
        write_speeds(data, out, [Fraction("0.9")])
    extra = ["reco2dur", "reco2file_and_channel", "segments", "text_words"]
    one_line(raised, *extra, "name another folder, or remove them")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == old
    for name in extra:
        (out / name).unlink()
    write_speeds(data, out, [Fraction("0.9")])
    assert lines(out / "text") == ["sp0.9-a-1 one two", "sp0.9-b-1"]


def test_features_of_other_speech_are_not_left_beside_new_tables(tmp_path: Path) -> None:
    data, out = write_data(tmp_path), tmp_path / "out"
    write_speeds(data, out, [Fraction("0.9")])
    write_speeds(data, out, [Fraction("1.1")])  # as often as one likes
    (out / "feats.scp").write_text("a-1 x\n")
    with pytest.raises(InputError, match=r"feats.scp: of other speech; remove the folder"):
        write_speeds(data, out, [Fraction("0.9")])


@pytest.mark.parametrize("speed", ["0", "x", "..", "99", "0.90001"])
def test_a_speed_in_a_table_that_is_none_is_refused(
    speed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_data(tmp_path)
    (data / "wav.scp").write_text(f"a-1 {data}/a.wav[speed={speed}]\nb-1 {data}/b.wav\n")
    assert main(["features", str(data)]) == 1
    said = capsys.readouterr().err
    assert "wav.scp: a-1: " in said
