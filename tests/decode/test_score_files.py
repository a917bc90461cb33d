"""bayes-asr pronunciation RUN FILE --text TEXT: as of a data directory that has this file alone."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.cli import main
from bayes_asr.data.sound.feature_directories import write_features
from bayes_asr.data.sound.spectrum import Analysis
from tests.support.sounds import riff
from tests.support.tones import RATE, command, speak

pytest.importorskip("kaldi_native_fbank")
pytest.importorskip("kaldifst")
pytest.importorskip("matplotlib")
pytestmark = pytest.mark.slow


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    """A file of four words, its text beside it, and a data directory of it."""
    folder = tmp_path / "data"
    folder.mkdir()
    sound = folder / "my talk.wav"
    sound.write_bytes(riff(speak(["six", "one", "two", "two"], np.random.default_rng(9)).samples))
    sound.with_suffix(".txt").write_text("six one\ntwo two\n")
    for name, value in (("wav.scp", "my talk.wav"), ("utt2spk", "me"), ("text", "six one two two")):
        (folder / name).write_text(f"my_talk {value}\n")
    write_features(folder, Analysis("fbank", bands=24))
    return sound


def test_a_file_has_the_scores_of_its_directory(
    run: Path, sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_file, of_directory = tmp_path / "file", tmp_path / "directory"
    text = ("--text", sound.with_suffix(".txt"))
    command("pronunciation", run, sound, *text, "--out", of_file, "--json")
    (printed,) = json.loads(capsys.readouterr().out)
    command("pronunciation", run, "--data", sound.parent, "--out", of_directory)
    (scored,), (expected,) = (
        json.loads((out / "gop.json").read_text()) for out in (of_file, of_directory)
    )
    assert scored["utterance"] == printed["utterance"] == expected["utterance"]
    assert scored["words"] == expected["words"]
    assert (of_file / "gop.txt").read_text() == (of_directory / "gop.txt").read_text()
    pages = [(out / "pronunciation.html").read_text() for out in (of_file, of_directory)]
    pictures = [page.split("data:image/png;base64,")[1].split('"')[0] for page in pages]
    assert pictures[0] == pictures[1]


def test_digital_silence_spoils_no_score(
    run: Path, sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    padded = tmp_path / "padded.wav"
    samples = speak(["six", "one", "two", "two"], np.random.default_rng(9)).samples
    padded.write_bytes(riff(np.concatenate([np.zeros((2 * RATE, 1), np.int16), samples])))
    scores = []
    for file in (sound, padded):
        text = ("--text", sound.with_suffix(".txt"))
        command("pronunciation", run, file, *text, "--out", tmp_path / file.stem, "--json")
        (scored,) = json.loads(capsys.readouterr().out)
        scores.append(scored["gop"])
    assert scores[1] == pytest.approx(scores[0], abs=0.05)


def test_scores_of_other_utterances_are_not_replaced(
    run: Path, sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file, and a data directory, that are called as a set of the run; the set itself may be."""
    scores = run / "pronunciation_dev"
    command("pronunciation", run, "--on=dev")
    file, data = tmp_path / "dev.wav", tmp_path / "dev"
    shutil.copy(sound, file)
    shutil.copytree(sound.parent, data)
    before = (scores / "gop.txt").read_bytes()
    text = f"--text={sound.with_suffix('.txt')}"
    for which in ([str(file), text], [f"--data={data}"]):
        assert main(["pronunciation", str(run), *which]) == 1
        assert f"{scores / 'gop.txt'}: of s0-0, " in capsys.readouterr().err
        assert (scores / "gop.txt").read_bytes() == before
    with (scores / "gop.txt").open("a") as table:
        table.write("s9-9 1 a 0.0\n")  # the set has lost it since
    command("pronunciation", run, "--on=dev")
    assert (scores / "gop.txt").read_bytes() == before
    shutil.rmtree(scores)
    for which in ([str(file), text], [f"--data={data}"]):
        annotation = (data if "--data" in which[0] else tmp_path) / "gop.json"
        annotation.write_text("by hand")
        assert main(["pronunciation", str(run), *which, f"--out={annotation.parent}"]) == 1
        assert f"{annotation}: " in capsys.readouterr().err
        assert annotation.read_text() == "by hand"
        command("pronunciation", run, *which, "--out", annotation.parent, "--force")
        assert annotation.read_text() != "by hand"


def test_scores_of_a_namesake_are_not_replaced(
    run: Path, sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, scores = f"--text={sound.with_suffix('.txt')}", run / "pronunciation_my_talk"
    namesake = tmp_path / "bert" / sound.name
    namesake.parent.mkdir()
    shutil.copy(sound, namesake)
    try:
        for _ in range(2):
            command("pronunciation", run, sound, text)
        assert main(["pronunciation", str(run), str(namesake), text]) == 1
        assert f"of {sound}, not of {namesake}; name a folder for" in capsys.readouterr().err
        sound.rename(sound.with_name("moved.wav"))
        command("pronunciation", run, namesake, text)
        (older,) = json.loads((scores / "gop.json").read_text())
        del older["file"]
        (scores / "gop.json").write_text(json.dumps([older]))
        command("pronunciation", run, sound.with_name("moved.wav").rename(sound), text)
    finally:
        shutil.rmtree(scores)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give its words, --text FILE"),
        (["--text=talk.txt", "--nj=2"], "--nj: of no use with FILE"),
        (["--text=talk.txt", "--on=dev"], "give the utterances: --on SET or --data DIR, or FILE"),
        (["--text=empty"], "empty: has no words"),
        (["--text=zebra"], "talk.wav: the lexicon lacks zebra"),
    ],
)
def test_what_cannot_be_scored_is_refused(
    options: list[str], message: str, run: Path, sound: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(sound.parent)
    Path("empty").touch()
    Path("zebra").write_text("six zebra\n")
    assert main(["pronunciation", str(run), str(sound), *options]) == 1
    assert message in capsys.readouterr().err


def test_a_channel_is_that_of_a_file(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pronunciation", str(run), "--on=dev", "--channel=0"]) == 1
    assert "--channel goes with FILE" in capsys.readouterr().err
