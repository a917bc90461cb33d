"""Sounds that were replaced by others of their names, whose MFCC are computed anew."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.places import ROOT

SCRIPT = f". {ROOT}/local/stages.sh && forget_changed_sounds log/mfcc.done data/train/wav.scp"
COMPUTED = 1_700_000_000  # when the MFCC were


@pytest.fixture(params=["{}", "sox {} -t wav - |"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with the MFCC of two sounds, files or commands."""
    data, log = tmp_path / "data" / "train", tmp_path / "log"
    data.mkdir(parents=True)
    log.mkdir()
    lines = []
    for name in ("one", "two"):
        write_sound(tmp_path / f"{name}.wav", "sound", COMPUTED - 100)
        lines.append(f"{name} {request.param.format(f'{name}.wav')}\n")
    (data / "wav.scp").write_text("".join(lines))
    return tmp_path


def write_sound(path: Path, content: str, modified: int) -> None:
    path.write_text(content)
    os.utime(path, (modified, modified))


def bash(folder: Path, script: str) -> str:
    """What a script prints that succeeds in a folder."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def forget(folder: Path) -> str:
    """What is said; empty where the stamp stays."""
    stamp = folder / "log" / "mfcc.done"
    stamp.touch()
    os.utime(stamp, (COMPUTED, COMPUTED))
    printed = bash(folder, SCRIPT)
    assert stamp.exists() == (not printed), printed
    return printed


def test_sounds_that_stay_keep_their_mfcc(folder: Path) -> None:
    assert not forget(folder)
    (folder / "two.wav").chmod(0o600)
    assert not forget(folder)


@pytest.mark.parametrize("modified", [COMPUTED - 200, COMPUTED + 200])
@pytest.mark.parametrize("content", ["sound", "other"])
def test_another_sound_of_the_name_has_others(folder: Path, modified: int, content: str) -> None:
    assert not forget(folder)
    write_sound(folder / "two.wav", content, modified)
    assert "data/train: sounds have changed" in forget(folder)
    assert not forget(folder), "once"


def test_sounds_that_are_not_there_have_not_changed(folder: Path) -> None:
    """As of a disk that is not mounted; when it comes back, they are compared as before."""
    assert not forget(folder)
    away = {name: (folder / f"{name}.wav").rename(folder / name) for name in ("one", "two")}
    assert not forget(folder)
    for name, path in away.items():
        path.rename(folder / f"{name}.wav")
        assert not forget(folder)
    write_sound(folder / "two.wav", "other", COMPUTED - 200)
    assert forget(folder)


def test_in_folders_without_a_list_the_time_tells(folder: Path) -> None:
    write_sound(folder / "two.wav", "sound", COMPUTED + 200)
    assert "data/train: sounds have changed" in forget(folder)


def test_stage_that_reads_the_tables_is_repeated(folder: Path) -> None:
    def repeated() -> bool:
        script = (
            f". {ROOT}/local/stages.sh; stage=0 stop_stage=7 force=; "
            "run_stage 1 features . data/train/{segments,wav.scp} makes feats.scp -- true"
        )
        return "features: complete" not in bash(folder, script)

    assert (repeated(), repeated()) == (True, False)
    write_sound(folder / "one.wav", "other", COMPUTED - 200)
    assert (repeated(), repeated()) == (True, False)


def test_stage_that_makes_the_tables_is_complete(tmp_path: Path) -> None:
    """Its sounds are there, or new, when it has run."""
    made = "mkdir -p data && echo RIFF >one.wav && echo one one.wav >data/wav.scp"
    script = (
        f". {ROOT}/local/stages.sh; stage=0 stop_stage=7 force=; "
        f"run_stage 0 sounds . makes data/wav.scp -- bash -c '{made}'"
    )
    said = [bash(tmp_path, script) for _ in range(2)]
    assert "complete" not in said[0]
    assert said[1] == "sounds: complete\n"
