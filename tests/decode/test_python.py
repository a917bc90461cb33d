"""Functions for Python programs: what they say of files that they refuse."""

from pathlib import Path

import pytest

import bayes_asr
from bayes_asr.base.errors import InputError


def test_refused_files_are_named_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = [InputError("a.wav: is empty"), InputError("b.wav: is no sound")]
    monkeypatch.setattr(
        "bayes_asr.decode.python.transcribe_files", lambda *_, one_speaker: iter(refused)
    )
    with pytest.raises(InputError, match=r"^a\.wav: is empty; b\.wav: is no sound$"):
        bayes_asr.transcribe(tmp_path, ["a.wav", "b.wav"])
