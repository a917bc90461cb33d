"""The preparation of LibriSpeech: sets, lexicon and language model, damaged parts."""

import gzip
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bayes_asr.cli import main
from bayes_asr.config.changes import describe_changes
from bayes_asr.config.merge import load
from bayes_asr.config.schema import differences
from bayes_asr.decode.graph.ngram import read_arpa
from bayes_asr.kaldi_io.text import read_mapping, read_text
from tests.attacks.breakages import unprivileged
from tests.pytorch_kaldi.test_import_cfg import shipped
from tests.support.librispeech_corpus import write_librispeech
from tests.support.places import RECIPES
from tests.support.recipe_modules import loaded

RECIPE = RECIPES / "librispeech"
SETS = {
    "train-clean-5": (2, 2),
    "train-clean-100": (3, 2),
    "train-other-500": (2, 2),
    "dev-clean": (1, 2),
    "dev-clean-2": (1, 2),
    "dev-other": (1, 2),
    "test-clean": (1, 2),
    "test-other": (1, 2),
}
LEXICON = """
A AH0
A EY1
BAD B AE1 D
CAB K AE1 B
DO D UW1
FEED F IY1 D
O'ER AO1 R
WIDE W AY1 D
"""
ARPA = r"""\data\
ngram 1=5

\1-grams:
-99 <s>
-1 </s>
-0.5 BAD
-0.5 ABACK
-2 <UNK>

\end\
"""

Prepare = Callable[..., str]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of all kinds of sets."""
    pytest.importorskip("soundfile")
    return write_librispeech(tmp_path_factory.mktemp("librispeech"), SETS)


@pytest.fixture
def corpus(whole: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return shutil.copytree(whole, tmp_path / "corpus")


def keep(corpus: Path, *names: str) -> None:
    for folder in (corpus / "LibriSpeech").iterdir():
        if folder.is_dir() and folder.name not in names:
            shutil.rmtree(folder)


@pytest.fixture
def prepare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Prepare]:
    """Run the recipe's script; what it said, below `tmp_path`/out."""
    with loaded(RECIPE, "corpus", "prepare") as modules:

        def run(corpus: Path, *options: str, fails: bool = False) -> str:
            named = [f"--corpus={corpus}", f"--out={tmp_path / 'out'}"]
            assert modules("prepare").main([*named, *options]) == int(fails)
            said = capsys.readouterr()
            assert not fails or said.err.count("\n") == 1
            return said.err if fails else said.out

        yield run


def readers(out: Path, name: str) -> set[str]:
    return {who.partition("-")[0] for who in read_mapping(out / f"data/{name}/utt2spk").values()}


def test_all_of_train_is_trained_on_once(corpus: Path, prepare: Prepare, tmp_path: Path) -> None:
    said = prepare(corpus)
    assert "train is train-clean-100 and train-other-500, dev dev-clean, test test-clean\n" in said
    assert "train-clean-100: 6 of 28539 published utterances" in said
    assert "train-clean-5:" not in said
    out = tmp_path / "out"
    assert len(read_text(out / "data/train/text")) == 10
    assert readers(out, "train") == {"200", "201", "202", "300", "301"}
    assert (out / "data/dev/spk2gender").read_text() == "400-7 f\n400-77 f\n"
    for utt, file in read_mapping(out / "data/test/wav.scp").items():
        assert file == f"{corpus}/LibriSpeech/test-clean/{'/'.join(utt.split('-')[:2])}/{utt}.flac"
    assert read_mapping(out / "data/test/utt2spk")["700-77-0001"] == "700-77"


def test_sets_may_be_chosen(corpus: Path, prepare: Prepare, tmp_path: Path) -> None:
    chosen = ["--train", "train-clean-5", "--dev=dev-other", "--test=test-other"]
    assert "train is train-clean-5, dev dev-other, test test-other" in prepare(corpus, *chosen)
    assert readers(tmp_path / "out", "train") == {"100", "101"}
    twice = ["--train", "train-clean-5", "train-clean-100", "train-clean-100"]
    assert "train is train-clean-100, dev" in prepare(corpus, *twice), "the one is in the other"
    assert readers(tmp_path / "out", "train") == {"200", "201", "202"}
    said = prepare(corpus, "--train", "train-clean-360", fails=True)
    assert "train-clean-360 is not there, but train-clean-5 train-clean-100" in said


def test_the_mini_part_is_tested_on_its_dev_set(
    corpus: Path, prepare: Prepare, tmp_path: Path
) -> None:
    keep(corpus, "train-clean-5", "dev-clean-2")
    said = prepare(corpus / "LibriSpeech")
    assert "train is train-clean-5, dev 1 of its readers, test dev-clean-2" in said
    out = tmp_path / "out"
    assert {len(readers(out, name)) for name in ("train", "dev", "test")} == {1}
    assert readers(out, "train") | readers(out, "dev") == {"100", "101"}


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        ((), "holds none of train-clean-5"),
        (("dev-clean",), "dev-clean: is all that is there; at least a train-*"),
        (("train-clean-5",), "train-clean-5: is all that is there"),
    ],
)
def test_too_few_sets_are_refused(
    corpus: Path, prepare: Prepare, kept: tuple[str, ...], message: str
) -> None:
    keep(corpus, *kept)
    assert message in prepare(corpus, fails=True)


def test_words_are_spelled_by_letters(corpus: Path, prepare: Prepare, tmp_path: Path) -> None:
    """Without the lexicon; those of the language model as well."""
    assert f"lexicon: 6 words by their letters (no {corpus}/librispeech-lexicon.txt)" in prepare(
        corpus
    )
    dictionary = tmp_path / "out/data/local/dict"
    assert "O'ER o e r\n" in (dictionary / "lexicon.txt").read_text()
    assert (dictionary / "nonsilence_phones.txt").read_text().split("\n")[:3] == ["a", "b", "c"]
    assert read_arpa(tmp_path / "out/data/local/lm.arpa").order == 3
    (corpus / "lm_tgmed.arpa.gz").write_bytes(gzip.compress(ARPA.encode()))
    said = prepare(corpus)
    assert f"language model: {corpus}/lm_tgmed.arpa.gz" in said
    assert "lexicon: 7 words" in said
    assert "ABACK a b a c k\n" in (dictionary / "lexicon.txt").read_text()
    assert read_arpa(tmp_path / "out/data/local/lm.arpa").order == 1


def test_lexicon_and_language_model_of_openslr(
    corpus: Path, prepare: Prepare, tmp_path: Path
) -> None:
    """Forms of stress share a tree, which may ask about the stress, as in Kaldi's recipe."""
    (corpus / "librispeech-lexicon.txt").write_text(LEXICON)
    (corpus / "LibriSpeech/3-gram.pruned.3e-7.arpa.gz").write_bytes(gzip.compress(ARPA.encode()))
    said = prepare(corpus)
    assert "3e-7.arpa.gz: 1 word is not in the lexicon and cannot be recognised: ABACK" in said
    dictionary = tmp_path / "out/data/local/dict"
    assert "A EY1\nBAD B AE1 D\n" in (dictionary / "lexicon.txt").read_text()
    lines = (dictionary / "nonsilence_phones.txt").read_text().splitlines()
    assert lines == ["AE1", "AH0", "AO1", "AY1", "B", "D", "EY1", "F", "IY1", "K", "R", "UW1", "W"]
    questions = (dictionary / "extra_questions.txt").read_text().splitlines()
    assert questions == ["SIL", "B D F K R W", "AH0", "AE1 AO1 AY1 EY1 IY1 UW1"]
    (corpus / "librispeech-lexicon.txt").write_text(LEXICON + "WIDE W AY2 D\nWIDE W AY0 D\n")
    prepare(corpus)
    assert "\nAY0 AY1 AY2\n" in (dictionary / "nonsilence_phones.txt").read_text()
    lang = tmp_path / "lang"
    assert main(["gmm", "lang", str(dictionary), str(lang), "--oov", "<UNK>"]) == 0
    assert "shared split AY0_B AY0_E" in (lang / "phones/roots.txt").read_text()


def test_a_lexicon_of_another_case_is_refused(corpus: Path, prepare: Prepare) -> None:
    (corpus / "librispeech-lexicon.txt").write_text(LEXICON.lower())
    said = prepare(corpus, fails=True)
    assert "librispeech-lexicon.txt: 40 of 40 words of train are not in it" in said


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("dev-clean/400/7/400-7.trans.txt", None, "400-7.trans.txt: is missing"),
        ("dev-clean/400/7/400-7-0000.flac", None, "1 transcripts and 0 sound files; the first"),
        ("dev-clean/400/7/400-7-0009.flac", "", "without the other is 400-7-0009"),
        ("dev-clean/400/7/400-7.trans.txt", "400-7-0000 A\n\xff", "line 2: not UTF-8 text"),
        ("SPEAKERS.TXT", "400 | F | dev-clean | 1 | A\n", "lacks 5 readers, 200, 201, 202"),
    ],
)
def test_what_is_damaged_is_named(
    corpus: Path, prepare: Prepare, file: str, content: str | None, message: str
) -> None:
    path = corpus / "LibriSpeech" / file
    if content is None:
        path.unlink()
    else:
        path.write_text(content, encoding="latin-1")
    assert message in prepare(corpus, fails=True)


@pytest.mark.parametrize("folder", ["dev-clean/400", "dev-clean/400/7"])
def test_a_reader_who_may_not_be_read_is_not_passed_over(
    folder: str, corpus: Path, prepare: Prepare
) -> None:
    forbidden = corpus / "LibriSpeech" / folder
    forbidden.chmod(0)
    with unprivileged():
        said = prepare(corpus, fails=True)
    forbidden.chmod(0o700)
    assert f"{forbidden}" in said
    assert "Permission denied" in said


def test_names_of_kaldis_experiments_are_known(tmp_path: Path) -> None:
    data = load([RECIPE / "config.yaml"]).data
    assert "fmllr/train_clean_100" in data.train.features
    assert "exp/tri4b_ali_clean_100" in data.train.alignments
    assert "exp/tri4b_ali_dev_clean_100" in data.dev.alignments
    assert "exp/tri4b/graph_tgsmall" in data.graph


def test_theirs_go_on_top(tmp_path: Path) -> None:
    """The configurations of pytorch-kaldi change network, training and decoding alone."""
    theirs = [path for path in shipped() if path.name.startswith("libri_")]
    if not theirs:
        pytest.skip("PYTORCH_KALDI does not name a clone of mravanelli/pytorch-kaldi")
    assert len(theirs) == 5
    recipe = RECIPE / "config.yaml"
    for path in theirs:
        out = tmp_path / f"{path.stem}.yaml"
        assert main(["import-cfg", str(path), "--without-data", f"--out={out}"]) == 0
        changed = differences(load([recipe]), load([recipe, out]))
        allowed = ("model.", "train.", "decode.", "features.", "seed")
        assert all(key.startswith(allowed) for key in changed)
        assert "model.stack" in changed
        assert "decode.lm_weights" in " ".join(describe_changes([recipe, out]))


@pytest.mark.parametrize(
    ("utterances", "size"),
    [(1519, "2500 15000"), (28539, "4200 40000"), (132553, "5000 100000"), (281241, "7000 150000")],
)
def test_models_grow_with_the_corpus(utterances: int, size: str, tmp_path: Path) -> None:
    """Leaves and Gaussians of Kaldi's last models of 5, 100, 460 and 960 hours."""
    (tmp_path / "data/train").mkdir(parents=True)
    (tmp_path / "data/train/utt2spk").write_text("a b\n" * utterances)
    script = 'out=$1; . "$2"; echo "${tri3[@]}"'
    done = subprocess.run(
        ["bash", "-euc", script, "bash", tmp_path, RECIPE / "kaldi.sh"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{size}\n"
