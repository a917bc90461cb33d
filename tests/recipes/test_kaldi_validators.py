"""What recipes prepare, before Kaldi's own validators, where KALDI_ROOT names a clone."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bayes_asr.cli import main
from tests.recipes.test_folder import make_corpus
from tests.support.librispeech_corpus import write_librispeech
from tests.support.places import RECIPES
from tests.support.recipe_modules import loaded

KALDI = Path(os.environ.get("KALDI_ROOT", "")).resolve()
UTILS = KALDI / "egs/wsj/s5/utils"
PATH = f"{KALDI / 'tools/openfst/bin'}:{os.environ['PATH']}"
SPEAKERS = ("anna", "anna+bert", "1", "10", "josé", "Émile", "a_b", "Z", "x-y")
TIMIT = "--sil-prob 0 --position-dependent-phones false --num-sil-states 3"
OPTIONS = {"timit": ["--oov", "sil", *TIMIT.split()]}
"""Options of `gmm lang` by recipe, as its kaldi.sh has them."""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder as Kaldi's recipes have it, with `utils` and `path.sh`."""
    if not (UTILS / "validate_lang.pl").is_file():
        pytest.skip("KALDI_ROOT does not name a clone of kaldi-asr/kaldi")
    (tmp_path / "utils").symlink_to(UTILS)
    (tmp_path / "path.sh").touch()
    # The scripts look for C.UTF-8, which newer C libraries spell C.utf8.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/locale").write_text("#!/bin/sh\necho C.UTF-8\n")
    (tmp_path / "bin/locale").chmod(0o755)
    return tmp_path


def validate(here: Path, script: str, *arguments: str | Path) -> None:
    """Run a validator; what it prints is shown where it refuses."""
    done = subprocess.run(
        [f"utils/{script}", *arguments],
        cwd=here,
        env={**os.environ, "PATH": f"{here / 'bin'}:{PATH}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def lay_out(recipe: str, data: Path, corpus: Path) -> Path:
    """The corpus of a recipe: a made-up one, or what lies in `data`."""
    if recipe == "folder":
        words = "naïve años l'été well-known 42"
        return make_corpus(corpus, {f"{s}/{take}": words for s in SPEAKERS for take in range(3)})
    if recipe == "librispeech":
        pytest.importorskip("soundfile")
        sets = ("train-clean-5", "dev-clean-2", "test-clean")
        return write_librispeech(corpus, dict.fromkeys(sets, (3, 2)))
    corpus = data / {"timit": "timit_sample"}.get(recipe, recipe)
    return corpus if corpus.is_dir() else pytest.skip(f"{corpus} is absent")


@pytest.mark.parametrize("recipe", ["folder", "librispeech", "an4", "timit"])
def test_kaldi_accepts_what_is_prepared(recipe: str, here: Path, shared_data: Path) -> None:
    corpus = lay_out(recipe, shared_data, here / "corpus")
    modules = [name for name in ("corpus", "prepare") if (RECIPES / recipe / f"{name}.py").exists()]
    with loaded(RECIPES / recipe, *modules) as module:
        assert module("prepare").main(["--corpus", str(corpus), "--out", str(here)]) == 0
    for name in ("train", "dev", "test"):
        data = here / "data" / name
        absent = [kind for kind in ("feats", "wav") if not (data / f"{kind}.scp").exists()]
        validate(here, "validate_data_dir.sh", *(f"--no-{kind}" for kind in absent), data)
    dictionary, lang = here / "data/local/dict", here / "data/lang"
    validate(here, "validate_dict_dir.pl", dictionary)
    options = OPTIONS.get(recipe, ["--oov", "<UNK>"])
    assert main(["gmm", "lang", str(dictionary), str(lang), *options]) == 0
    if not shutil.which("fstinfo", path=PATH):
        pytest.skip("validate_lang.pl needs OpenFst's programs")
    validate(here, "validate_lang.pl", lang)
