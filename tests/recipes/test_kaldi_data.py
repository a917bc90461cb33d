"""Copying a data directory for Kaldi's programs: which sound is converted, and where it lies."""

import contextlib
import io
import wave
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.kaldi_io.ark import read_scp
from tests.support.places import ROOT
from tests.support.recipe_modules import loaded
from tests.support.sounds import SOUND, riff, written

pytest.importorskip("soundfile")


@dataclass(frozen=True)
class Done:
    """How a call of the script ended."""

    returncode: int
    stderr: str


def copy(data: Path, target: Path) -> Done:
    with (
        loaded(ROOT / "local", "kaldi_data") as module,
        contextlib.redirect_stderr(io.StringIO()) as said,
    ):
        return Done(module("kaldi_data").main(data, target), said.getvalue())


@pytest.mark.parametrize("name", ["../../escaped", "/etc/a", "..", "a/b", "%2F", "ü", "plain"])
def test_converted_sound_stays_in_its_folder(name: str, tmp_path: Path) -> None:
    data, target = tmp_path / "data", tmp_path / "deep" / "er" / "copy"
    data.mkdir()
    (data / "a.flac").write_bytes(written(SOUND, "FLAC", "PCM_16"))
    (data / "wav.scp").write_text(f"{name} a.flac\n")
    before = {*tmp_path.rglob("*")}
    done = copy(data, target)
    assert (done.returncode, done.stderr) == (0, "")
    ((found, file),) = read_scp(target / "wav.scp").items()
    assert found == name
    assert Path(file).parent == target / "wav"
    assert {path for path in tmp_path.rglob("*") if path.is_file()} - before == {
        Path(file),
        target / "wav.scp",
    }
    with wave.open(file, "rb") as sound:
        assert sound.getframerate() == 16000
        samples = np.frombuffer(sound.readframes(400), "<i2").reshape(-1, 2)
    assert np.array_equal(samples, SOUND)


def test_recordings_with_names_alike_keep_apart(tmp_path: Path) -> None:
    (tmp_path / "a.flac").write_bytes(written(SOUND, "FLAC", "PCM_16"))
    (tmp_path / "wav.scp").write_text("a/b a.flac\na%2Fb a.flac\n")
    assert copy(tmp_path, tmp_path / "copy").returncode == 0
    assert len(set(read_scp(tmp_path / "copy/wav.scp").values())) == 2


def test_only_what_kaldi_reads_is_left_as_it_is(tmp_path: Path) -> None:
    contents = {
        "plain": riff(SOUND),
        "wide": written(SOUND / 2**15, "WAV", "PCM_24"),
        "float": written(SOUND / 2**15, "WAV", "FLOAT"),
    }
    for name, content in contents.items():
        (tmp_path / f"{name}.wav").write_bytes(content)
    (tmp_path / "wav.scp").write_text("".join(f"{name} {name}.wav\n" for name in contents))
    assert copy(tmp_path, tmp_path / "copy").returncode == 0
    files = read_scp(tmp_path / "copy/wav.scp")
    assert files["plain"] == str(tmp_path / "plain.wav")
    for name in ("wide", "float"):
        assert files[name] == str(tmp_path / "copy" / "wav" / f"{name}.wav")
        assert Path(files[name]).read_bytes() == riff(SOUND)


@pytest.mark.parametrize(("rate", "name"), [(8000, "a.wav"), (44100, "a.wav"), (8000, "a.flac")])
def test_sound_of_another_rate_is_resampled(rate: int, name: str, tmp_path: Path) -> None:
    """compute-mfcc-feats refuses it. A tone stays the same tone, in each channel its own."""
    tones = (440, 1000)
    expected, sound = (
        np.stack([9000 * np.sin(2 * np.pi * hertz * np.arange(n) / n) for hertz in tones], axis=1)
        for n in (16000, rate)
    )
    sound = sound.round().astype(np.int16)
    content = riff(sound, rate) if name == "a.wav" else written(sound, "FLAC", "PCM_16", rate=rate)
    (tmp_path / name).write_bytes(content)
    (tmp_path / "wav.scp").write_text(f"a {name}\n")
    assert copy(tmp_path, tmp_path / "copy").returncode == 0
    (file,) = read_scp(tmp_path / "copy/wav.scp").values()
    with wave.open(file, "rb") as read:
        assert (read.getframerate(), read.getnframes(), read.getsampwidth()) == (16000, 16000, 2)
        samples = np.frombuffer(read.readframes(16000), "<i2").reshape(-1, 2)
    inside = slice(800, -800)  # filters have ends
    assert np.abs(samples[inside] - expected[inside]).max() < 90


def test_a_damaged_sound_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.flac").write_bytes(written(SOUND, "FLAC", "PCM_16")[:-9])
    (tmp_path / "wav.scp").write_text("a a.flac\n")
    done = copy(tmp_path, tmp_path / "copy")
    assert done.returncode == 1
    assert done.stderr.startswith(f"kaldi_data.py: error: {tmp_path}/a.flac: cannot be decoded")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("table", ["wav.scp", "feats.scp"])
def test_commands_are_refused_without_the_name_of_an_option_that_is_not_there(
    table: str, tmp_path: Path
) -> None:
    (tmp_path / table).write_text(f"a touch {tmp_path}/executed |\n")
    done = copy(tmp_path, tmp_path / "copy")
    assert done.returncode == 1
    assert f"{table}: a is the command 'touch" in done.stderr
    assert "--allow-pipes" not in done.stderr
    assert not (tmp_path / "executed").exists()
