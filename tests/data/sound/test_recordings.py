"""Recordings of data directories: what wav.scp and segments name, as samples of one channel."""

from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.data.sound.audio import check_is_there, read_audio, resample
from bayes_asr.data.sound.feature_directories import write_features
from bayes_asr.data.sound.spectrum import Analysis
from bayes_asr.kaldi_io.ark import iter_matrices
from tests.support.sounds import corpus, riff

RNG = np.random.default_rng(2)


def read_matrix_of(folder: Path, utt: str) -> np.ndarray:
    return dict(iter_matrices(folder / "feats.scp"))[utt]


def test_segments_are_cut_as_extract_segments_does(tmp_path: Path) -> None:
    folder = corpus(tmp_path / "d", {"r": 2.0})
    samples = read_audio(folder / "r.wav")[0]
    (folder / "segments").write_text("r-a r 0.5 1.00004\nr-b r 1.5 2.4\nr-c r 0.25 -1 0\n")
    (folder / "utt2spk").write_text("r-a s\nr-b s\nr-c s\n")
    write_features(folder, Analysis())
    found = dict(iter_matrices(folder / "feats.scp"))
    for utt, part in (
        ("r-a", samples[8000:16001]),
        ("r-b", samples[24000:]),
        ("r-c", samples[4000:]),
    ):
        assert np.array_equal(found[utt], Analysis()(part))


def test_sound_with_the_sign_of_a_command_is_told_from_one(tmp_path: Path) -> None:
    """kaldi #628: shells say "Exec format error" or "Permission denied"; scripts are commands."""
    folder = corpus(tmp_path / "d", {"a1": 0.5})
    sound = folder / "a1.wav"
    for mode, message in ((0o644, "is a file and no command; leave out"), (0o755, "refusing to")):
        sound.chmod(mode)
        (folder / "wav.scp").write_text(f"a1 {sound} |\n")
        with pytest.raises(InputError, match=message):
            write_features(folder, Analysis())


def test_another_rate_is_resampled_and_announced_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = corpus(tmp_path / "d", {"a1": 0.5, "b1": 0.5, "b2": 0.5}, rate=44100)
    write_features(folder, Analysis())
    warnings = (record for record in caplog.records if record.levelname == "WARNING")
    (said,) = (record.message for record in warnings)  # a slow machine tells its progress too
    assert said == f"{folder}/a1.wav (a1) (and 2 more): resampled from 44100 to 16000 Hz"
    sound = resample(read_audio(folder / "b1.wav")[0], 44100, 16000)
    assert np.array_equal(read_matrix_of(folder, "b1"), Analysis()(sound))
    corpus(folder, {"a1": 0.5}, rate=8000)
    write_features(folder, Analysis())
    assert "there is nothing above 4000 Hz in it: expect errors" in caplog.text


@pytest.mark.parametrize(
    ("options", "chosen"), [([], 0), (["--channel=1"], 1), (["--channel=mean"], "mean")]
)
def test_one_of_several_channels_is_taken(
    options: list[str], chosen: int | str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = corpus(tmp_path / "d", {"a1": 0.5})
    (folder / "a1.wav").write_bytes(riff(RNG.integers(-9000, 9000, (8000, 2))))
    assert main(["features", str(folder), *options]) == 0
    assert ("has 2 channels; the first is taken" in capsys.readouterr().err) == (not options)
    sound = read_audio(folder / "a1.wav", chosen)[0]
    assert np.array_equal(read_matrix_of(folder, "a1"), Analysis()(sound))


def test_a_side_that_only_scoring_knows_is_not_guessed(tmp_path: Path) -> None:
    """Kaldi's front end does not read reco2file_and_channel either; its recipes cut in a pipe."""
    folder = corpus(tmp_path / "d", {"a1": 0.5, "b1": 0.5})
    (folder / "reco2file_and_channel").write_text("a1 talk A\nb1 talk B\n")
    write_features(folder, Analysis())  # each a file of its own
    for utt in ("a1", "b1"):
        (folder / f"{utt}.wav").write_bytes(riff(RNG.integers(-9000, 9000, (8000, 2))))
    with pytest.raises(InputError, match=r"b1.* has 2 channels, and reco2file_and_channel says B"):
        write_features(folder, Analysis())
    (folder / "segments").write_text("a1 a1 0 0.5\nb1 b1 0 0.5 1\n")
    write_features(folder, Analysis())
    sound = read_audio(folder / "b1.wav", 1)[0]
    assert np.array_equal(read_matrix_of(folder, "b1"), Analysis()(sound))


def test_commands_in_wav_scp_are_run_on_request_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = corpus(tmp_path / "d", {"a1": 0.5})
    write_features(folder, Analysis())
    expected, mark = read_matrix_of(folder, "a1"), tmp_path / "executed"
    (folder / "wav.scp").write_text(f"a1 touch {mark}; cat {folder}/a1.wav |\n")
    assert main(["features", str(folder)]) == 1
    assert "a1: refusing to run the command" in capsys.readouterr().err
    assert not mark.exists()
    assert main(["features", str(folder), "--allow-pipes"]) == 0
    assert mark.exists()
    assert np.array_equal(read_matrix_of(folder, "a1"), expected)


def test_formats_may_be_mixed(tmp_path: Path) -> None:
    """The same samples give the same features to the last bit."""
    soundfile = pytest.importorskip("soundfile")
    folder = corpus(tmp_path / "d", {"a1": 0.5, "a2": 0.5, "a3": 0.5})
    sound = read_audio(folder / "a1.wav")[0].astype(np.int16)
    soundfile.write(folder / "a2.flac", sound, 16000)
    soundfile.write(folder / "a3.24.wav", sound / 2**15, 16000, subtype="PCM_24")
    (folder / "wav.scp").write_text("a1 a1.wav\na2 a2.flac\na3 a3.24.wav\n")
    write_features(folder, Analysis())
    first, *others = dict(iter_matrices(folder / "feats.scp")).values()
    assert np.array_equal(first, Analysis()(sound.astype(np.float32)))
    assert [np.array_equal(first, other) for other in others] == [True, True]


def test_a_place_in_an_archive_of_sounds_is_named_as_what_it_is(tmp_path: Path) -> None:
    archive = tmp_path / "wav.ark"
    archive.write_bytes(b"a1 RIFF")
    for check in (check_is_there, read_audio):
        with pytest.raises(InputError, match=r"wav\.ark:3: a place in an archive, .*`wav-copy"):
            check(f"{archive}:3")
