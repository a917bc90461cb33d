"""The recipe of Mboshi: a made-up corpus of its shape, the corpus itself, and damaged clones."""

import runpy
import shutil
import unicodedata
import wave
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.cli import main
from bayes_asr.data.sound.audio import read_channels
from bayes_asr.decode.graph.ngram import read_arpa
from bayes_asr.evaluate.score.phones import read_folding
from bayes_asr.evaluate.score.scores import read_scores
from bayes_asr.kaldi_io.text import read_mapping, read_text
from tests.recipes.test_run_stages import GMM
from tests.support.places import RECIPES
from tests.support.script_stubs import Checkout

SETS = ("train", "dev", "test")
SPEAKERS = [f"{name}_2001-01-0{day}-10-11-12" for name in ("ana", "ben") for day in (1, 2)]
WORDS = ("káno", "ka", "nó", "mεla", "mέ", "lώ")  # made up


def prepare(corpus: Path, out: Path, *options: str) -> int:
    """Run the recipe's script in this process; its status."""
    recipe = runpy.run_path(str(RECIPES / "mboshi/prepare.py"))
    return recipe["main"](["--corpus", str(corpus), "--out", str(out), *options])


def write_utterance(folder: Path, stem: str, words: str, rng: np.random.Generator) -> None:
    """Noise of two seconds and the transcripts, letters and tones as two characters."""
    folder.mkdir(parents=True, exist_ok=True)
    decomposed = unicodedata.normalize("NFD", words)
    letters = " ".join(words.replace(" ", ""))
    (folder / f"{stem}.mb.cleaned").write_text(f"{decomposed}\n")
    split = unicodedata.normalize("NFD", letters)
    (folder / f"{stem}.mb.cleaned.split").write_text(f"{split}\n")
    with wave.open(str(folder / f"{stem}.wav"), "wb") as sound:
        sound.setparams((1, 2, 16000, 0, "NONE", ""))
        sound.writeframes(rng.integers(-900, 900, 32000).astype("<i2").tobytes())


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two people in two sessions each: 20 utterances to train and choose on, 3 to test."""
    rng = np.random.default_rng(1)
    whole = tmp_path / "clone/full_corpus_newsplit"
    for name, number, known in (("train", 20, WORDS), ("dev", 3, (*WORDS, "olá"))):
        for i in range(number):
            words = [*rng.choice(known[:6], 2), known[i % len(known) - 1]]
            stem = f"{SPEAKERS[i % 4]}_phone_{name}_{i}"
            write_utterance(whole / name, stem, " ".join(words), rng)
    return whole.parent


def test_sets_sessions_and_both_transcripts(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert prepare(corpus, out, "--unchecked") == 0
    texts = {name: read_text(out / "data" / name / "text") for name in SETS}
    assert [len(text) for text in texts.values()] == [18, 2, 3]
    names = sorted(file.stem for file in (corpus / "full_corpus_newsplit/train").glob("*.wav"))
    assert [utt.split("-", 7)[7] for utt in texts["dev"]] == [names[6], names[19]]
    for name in SETS:
        words = read_text(out / "data" / name / "text_words")
        assert words.keys() == texts[name].keys()
        for utt, said in words.items():
            assert texts[name][utt] == [*"".join(said)]
            assert {*said} <= {*WORDS, "olá"}  # NFC
        speakers = read_mapping(out / "data" / name / "utt2spk")
        assert {*speakers.values()} <= {speaker.replace("_", "-") for speaker in SPEAKERS}
        for file in read_mapping(out / "data" / name / "wav.scp").values():
            assert Path(file).parent.parent.parent == corpus
    lexicon = (out / "data/local/dict_words/lexicon.txt").read_text().splitlines()
    assert lexicon[0] == "<UNK> spn"
    assert lexicon[1:] == [f"{word} {' '.join(word)}" for word in sorted(WORDS)]
    aligned = (out / "data/local/dict_align/lexicon.txt").read_text().splitlines()
    assert {*aligned} - {*lexicon} <= {"olá o l á"}
    for name, order in (("lm", 3), ("lm_bigram", 2), ("lm_words", 3)):
        assert read_arpa(out / f"data/local/{name}.arpa").order == order


@pytest.mark.slow
def test_the_way_to_both_tables(corpus: Path, tmp_path: Path) -> None:
    """From sound to rates without GMMs: one network, decoded as phones, and a copy as words."""
    out = tmp_path / "out"
    assert prepare(corpus, out, "--unchecked") == 0
    data, local, exp = out / "data", out / "data/local", out / "exp"
    bayes_asr("features", *(data / name for name in SETS))
    model: list[str | Path] = []
    for name, ali in (("train", "realigned_ali"), ("dev", "realigned_ali_dev")):
        text = ("--data", data / name, "--text", data / name / "text_words", *model)
        lang = ("--lang", local / "dict_align", "--oov", "<UNK>")
        bayes_asr("align", "--flat", *text, *lang, "--out", exp / ali)
        model = ["--model", exp / "realigned_ali/final.mdl"]
    for task, pause in (("", "0.5"), ("_words", "0.4")):
        lexicon, lm = local / f"dict{task}/lexicon.txt", local / f"lm{task}.arpa"
        options = ("--lexicon", lexicon, "--lm", lm, "--silence-prob", pause, *model)
        bayes_asr("graph", *options, "--out", exp / f"mono/graph{task}")
    small = ["model.layers=1", "model.units=8", "train.epochs=1", "decode.beam=8"]
    conventions = {"mboshi": ["strict", "toneless"], "mboshi_words": ["plain", "known"]}
    for recipe, named in conventions.items():
        run = out / recipe / "seed1"
        files = [RECIPES / recipe / f"{name}.yaml" for name in ("config", "without_kaldi")]
        settings = [f"--set={setting}" for setting in (f"data.dir={out}", *small)]
        if recipe == "mboshi_words":
            shutil.copytree(out / "mboshi/seed1", run)
        bayes_asr("train", *files, *settings, "--out", run)
        for name in ("dev", "test"):
            bayes_asr("forward", run, "--on", name)
            bayes_asr("decode", run, "--on", name)
        bayes_asr("score", run)
        for name in ("dev", "test"):
            scores = read_scores(run / f"score_{name}.json")
            assert [score.convention for score in scores] == named
            assert len(scores[0].utterances) == len(read_text(data / name / "text"))


@pytest.mark.slow
def test_without_kaldi_words_are_aligned_and_both_graphs_made(checkout: Checkout) -> None:
    """The calls of stage 2; in the graph of phones, too, there may be pauses."""
    recipe, out = checkout.folder / "recipes/gmm", checkout.folder / "exp/gmm"
    shutil.copy(RECIPES / "mboshi/without_kaldi.sh", recipe)
    (out / "data/local/dict_align").mkdir(parents=True)
    done = checkout.run(*GMM, "--features", "mfcc", "--stage", "2", KALDI_ROOT="")
    assert done.returncode == 0, done.stderr
    calls = checkout.calls("bayes-asr")
    aligned = [call for call in calls if call[0] == "align"]
    texts = [call[call.index("--text") + 1] for call in aligned]
    assert texts == [f"{out}/data/{name}/text_words" for name in ("train", "dev")] * 3
    assert {call[call.index("--lang") + 1] for call in aligned} == {f"{out}/data/local/dict_align"}
    phones, words = (call for call in calls if call[0] == "graph")
    assert phones[-4:] == ["--silence-prob", "0.5", "--out", f"{out}/exp/mono/graph"]
    assert words[-2:] == ["--out", f"{out}/exp/mono/graph_words"]
    assert f"{out}/data/local/lm_words.arpa" in words


def bayes_asr(*words: str | Path) -> None:
    assert main([*map(str, words)]) == 0


def test_sound_that_ends_early_is_mended(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in 78 of the published files, which are otherwise complete."""
    out = tmp_path / "out"
    short = min((corpus / "full_corpus_newsplit/dev").glob("*.wav"))
    content = short.read_bytes()
    short.write_bytes(content[:-726])
    assert prepare(corpus, out, "--unchecked") == 0
    copy = out / "data/local/sound" / short.name
    assert f"1 sound files end before their headers say so: mended copies are in {copy.parent}" in (
        capsys.readouterr().out
    )
    files = read_mapping(out / "data/test/wav.scp").values()
    assert str(copy) in files
    assert str(short) not in files
    samples, rate = read_channels(copy)
    assert (len(samples), rate) == (32000 - 363, 16000)
    np.testing.assert_array_equal(samples[:, 0], np.frombuffer(content[44:-726], "<i2"))


def test_another_corpus_is_refused(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare(corpus, tmp_path / "out") == 1
    assert "train: 20 utterances, but 4616 in the published corpus" in capsys.readouterr().err
    assert prepare(tmp_path, tmp_path / "out") == 1
    assert "is a clone of https://github.com/besacier" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("suffix", "content", "message"),
    [
        (".wav", None, "the sound of 1 of 20 utterances are missing, the first is {}.wav"),
        (".mb.cleaned", None, "the words of 1 of 20 utterances are missing, the first is {}.mb"),
        (".wav", "RIFF", "{}.wav: not a RIFF file of sound"),
        (".mb.cleaned", "", "{}.mb.cleaned: empty"),
        (".mb.cleaned", "kana\n", "other graphemes than those of the words in {}.mb.cleaned"),
    ],
)
def test_what_is_missing_is_named(
    corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    suffix: str,
    content: str | None,
    message: str,
) -> None:
    first = min((corpus / "full_corpus_newsplit/train").glob("*.wav"))
    file = first.with_name(first.stem + suffix)
    file.unlink()
    if content is not None:
        file.write_text(content)
    assert prepare(corpus, tmp_path / "out", "--unchecked") == 1
    said = capsys.readouterr().err
    assert message.format(first.stem) in said
    assert said.count("\n") == 1


def test_equals_what_kaldi_was_run_on(shared_data: Path, tmp_path: Path) -> None:
    """Beyond the words for silence and noise, which no transcript has."""
    if not (shared_data / "mboshi").exists():
        pytest.skip(f"a clone of Mboshi is absent: {shared_data / 'mboshi'}")
    assert prepare(shared_data / "mboshi", tmp_path) == 0
    known = shared_data / "kaldi/mboshi/data"
    for part in SETS:
        for name in ("text", "text_words", "utt2spk", "spk2utt"):
            assert (tmp_path / "data" / part / name).read_bytes() == (
                known / part / name
            ).read_bytes()
    for folder in ("dict", "dict_words"):
        ours = {path.name: path for path in (tmp_path / "data/local" / folder).iterdir()}
        lexicons = [ours.pop("lexicon.txt"), known / folder / "lexicon.txt"]
        one, other = ({*path.read_text().splitlines()} for path in lexicons)
        assert one ^ other <= {"<UNK> spn", "sil sil", "spn spn", "!SIL sil"}
        for name, path in ours.items():
            assert path.read_bytes() == (known / folder / name).read_bytes()
    folding = read_folding(RECIPES / "mboshi/toneless.txt")
    phones = (known / "dict/nonsilence_phones.txt").read_text().split()
    toned = {phone for phone in phones if len(unicodedata.normalize("NFD", phone)) > 1}
    assert folding.keys() == toned
    assert {*folding.values()} == {unicodedata.normalize("NFD", phone)[0] for phone in toned}
