"""Functions for Python programs: what they say of files that they refuse."""

from pathlib import Path

import pytest

import bayes_asr
from bayes_asr.base.errors import InputError
from bayes_asr.decode.transcribe import Transcript


def test_refused_files_are_named_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = [InputError("a.wav: is empty"), InputError("b.wav: is no sound")]
    monkeypatch.setattr(
        "bayes_asr.decode.python.transcribe_files", lambda *_, one_speaker: iter(refused)
    )
    with pytest.raises(InputError, match=r"^a\.wav: is empty; b\.wav: is no sound$"):
        bayes_asr.transcribe(tmp_path, ["a.wav", "b.wav"])


@pytest.mark.parametrize("file", ["talk.wav", Path("talk.wav")])
def test_a_name_is_one_file(
    file: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "bayes_asr.decode.python.transcribe_files",
        lambda _, files, one_speaker: (Transcript(str(name), 1.0, []) for name in files),
    )
    (transcript,) = bayes_asr.transcribe(tmp_path, file)
    assert transcript.file == "talk.wav"
