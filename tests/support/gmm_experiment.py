"""Prepared data, and a checkout whose local/kaldi_gmm.sh or local/gmm.sh runs on it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.support.places import ROOT
from tests.support.script_stubs import executable
from tests.support.sounds import riff

PYTHON = f"""#!/bin/sh
case "$*" in
    *"import torch"*) echo 2.13.0 ;;
    "-m pip"* | "-m compileall"*) ;;
    *) exec "{sys.executable}" "$@" ;;
esac
"""


class Experiment:
    """A checkout's scripts, and prepared data of one utterance a speaker.

    What notes down its calls adds them to the file that the variable CALLS names.
    """

    script: str
    """Of local/, which `run` runs."""

    def __init__(self, folder: Path, speakers: int = 3) -> None:
        self.folder, self.out = folder, folder / "out"
        self.calls_file = folder / "calls"
        shutil.copytree(ROOT / "local", folder / "checkout/local")
        for name in ("setup.py", "constraints.txt", "pyproject.toml"):
            shutil.copy(ROOT / name, folder / "checkout")
        (folder / "checkout/bayes_asr").mkdir()
        for recipe in (ROOT / "recipes").glob("*/kaldi.sh"):
            place = folder / "checkout/recipes" / recipe.parent.name
            place.mkdir(parents=True)
            shutil.copy(recipe, place)
            (place / "config.yaml").touch()
        executable(folder / "environment/bin/python", PYTHON)
        for name in ("train", "dev", "test", "eval"):
            self.write_data(name, speakers)
        dictionary = self.out / "data/local/dict"
        dictionary.mkdir(parents=True)
        (dictionary / "lexicon.txt").write_text("go g ow\n")
        (self.out / "data/local/lm.arpa").write_text("\\data\\\n")

    def write_data(self, name: str, speakers: int) -> None:
        """Write a set of `speakers` utterances of the same sound."""
        data = self.out / "data" / name
        data.mkdir(parents=True)
        names = [f"{name}{number}" for number in range(speakers)]
        for file in ("utt2spk", "spk2utt", "text"):
            (data / file).write_text("".join(f"{speaker} {speaker}\n" for speaker in names))
        sound = self.folder / "sound.wav"
        sound.write_bytes(riff(np.ones((9, 1))))
        (data / "wav.scp").write_text("".join(f"{speaker} {sound}\n" for speaker in names))

    def add_words(self) -> None:
        """Let transcripts be aligned by `text_words`, and words be a second task."""
        prepared = self.out / "data/local"
        for name in ("align", "words"):
            shutil.copytree(prepared / "dict", prepared / f"dict_{name}")
        shutil.copy(prepared / "lm.arpa", prepared / "lm_words.arpa")
        for name in ("train", "dev", "test"):
            data = self.out / "data" / name
            (data / "text_words").write_text((data / "text").read_text().upper())

    def run(self, *options: str, recipe: str = "timit", **changes: str) -> str:
        """Run the script; what it printed, with ` status N` at the end."""
        variables = {
            "CALLS": str(self.calls_file),
            "FAILING": "",
            "SILENT": "",
            "KALDI_ROOT": "",
            "PYTHONPATH": str(ROOT),
            "VIRTUAL_ENV": str(self.folder / "environment"),
            "train_cmd": "",
            "decode_cmd": "",
        }
        done = subprocess.run(
            [
                self.folder / "checkout/local" / self.script,
                *("--recipe", recipe, "--out", self.out, *options),
            ],
            cwd=self.folder,
            env=os.environ | variables | changes,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        return f"{done.stdout}status {done.returncode}"

    def calls(self) -> list[str]:
        """The calls since this was last asked, one a line."""
        if not self.calls_file.exists():
            return []
        lines = self.calls_file.read_text().replace("\t", " ").splitlines()
        self.calls_file.unlink()
        return lines
