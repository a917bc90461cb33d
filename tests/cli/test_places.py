"""Places of results: refused before the work where they cannot be, and none costs another."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bayes_asr.base.places import refuse_replacing
from bayes_asr.cli import main
from bayes_asr.decode.recognise import RecognisedWord
from bayes_asr.decode.transcribe import Transcript
from tests.attacks.breakages import unprivileged


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[Transcript]:
    """What was recognised so far: one word a file, after which the folder `results` is gone."""
    transcripts: list[Transcript] = []

    def transcribe(run: Path, files: Sequence[Path], *_: Any, **__: Any) -> Iterator[Transcript]:
        for file in files:
            word = RecognisedWord("one", 0.0, 1.0, 0.5)
            transcripts.append(Transcript(str(file), 1.0, [word], [[0.0, 1.0]]))
            yield transcripts[-1]
        shutil.rmtree(run / "results", ignore_errors=True)
        (run / "results").touch()

    monkeypatch.setattr("bayes_asr.cli.transcribe.transcribe", transcribe)
    return transcripts


@pytest.mark.parametrize("option", ["--ctm", "--rttm", "--srt", "--vtt"])
@pytest.mark.parametrize("place", ["file/x", "folder", "locked/x", "locked/new/x"])
def test_places_that_cannot_be_written_are_refused_before_the_first_file(
    option: str,
    place: str,
    heard: list[Transcript],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "locked").mkdir(mode=0o555)
    path = tmp_path / place
    fits = place == "folder" and option in ("--srt", "--vtt")
    with unprivileged():
        assert main(["transcribe", str(tmp_path), "a.wav", option, str(path)]) == (not fits)
    assert len(heard) == fits
    assert (f"{option} {path}: " in capsys.readouterr().err) == (not fits)


def test_places_that_are_not_there_yet_are_made(heard: list[Transcript], tmp_path: Path) -> None:
    new = tmp_path / "new/folder"
    places = [f"--ctm={new}/ctm", f"--rttm={new}/rttm", f"--srt={new}", f"--vtt={new}"]
    assert main(["transcribe", str(tmp_path), "a.wav", *places]) == 0
    assert {path.name for path in new.iterdir()} == {"ctm", "rttm", "a.srt", "a.vtt"}


@pytest.mark.parametrize("name", ["a.ctm", "a.rttm", "a.srt", "a.vtt"])
def test_files_beside_the_sound_are_not_replaced(
    name: str, heard: list[Transcript], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of a folder of results are, by the same command."""
    (tmp_path / "sounds").mkdir()
    (tmp_path / "sounds/a.wav").touch()
    (tmp_path / "link").symlink_to("sounds")
    suffix = Path(name).suffix[1:]
    for folder, codes in (("own", (0, 0)), ("sounds", (0, 1)), ("link", (1,))):
        place = tmp_path / folder / (name if suffix in ("ctm", "rttm") else "")
        asked = [str(tmp_path / "sounds/a.wav"), "b.wav", f"--{suffix}={place}"]
        for code in codes:
            assert main(["transcribe", str(tmp_path), *asked]) == code
        said = capsys.readouterr().err
        assert (f"error: {tmp_path / folder / name}" in said) == (1 in codes)
        assert main(["transcribe", str(tmp_path), *asked, "--force"]) == 0
    assert len(heard) == 2 * (3 + 3)


def test_all_files_that_lie_beside_sounds_are_named(
    heard: list[Transcript],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.wav", "b.wav"):
        Path(name).touch()
    asked = ["transcribe", str(tmp_path), "a.wav", "b.wav", "--srt=."]
    for further, code in (([], 0), ([], 1), (["--force"], 0)):
        assert main([*asked, *further]) == code
        said = capsys.readouterr().err
        assert ("a.srt, b.srt: " in said) == ("--force" in said) == (code == 1)


@pytest.mark.parametrize("place", ["pipe", "null"])
def test_devices_and_pipes_are_no_files_to_keep(place: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to(os.devnull)
    refuse_replacing([tmp_path / place], [tmp_path])


def test_only_inputs_that_are_there_have_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard input has none."""
    monkeypatch.chdir(tmp_path)
    Path("a.ctm").touch()
    refuse_replacing([Path("a.ctm")], [Path("-"), Path("absent.wav")])


@pytest.mark.parametrize("option", ["--ctm", "--rttm"])
def test_json_is_printed_whatever_becomes_of_tables(
    option: str, heard: list[Transcript], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results").mkdir()
    table = str(tmp_path / "results/table")
    assert main(["transcribe", str(tmp_path), "a.wav", "b.wav", "--json", option, table]) == 1
    assert json.loads(capsys.readouterr().out) == [asdict(transcript) for transcript in heard]


def test_an_alignment_has_its_place_before_it_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for option in ("--out", "--textgrid"):
        assert main(["align", "absent", "--on=test", option, str(tmp_path / "file")]) == 1
        assert f"{option} {tmp_path / 'file'}: " in capsys.readouterr().err
