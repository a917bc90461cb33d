"""Alignment by L.fst of each layout that Kaldi's scripts write, and by folders made of one lexicon.

The layouts are what the scripts of egs/wsj/s5/utils print; where KALDI_ROOT is set, they are asked.
"""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.decode.align.best_path import AlignOptions
from bayes_asr.decode.align.forced import align_utterance, word_spans
from bayes_asr.decode.align.partial import PartialAligner
from bayes_asr.decode.align.pronouncer import Pronouncer
from bayes_asr.decode.align.transcripts import read_pronouncer
from bayes_asr.decode.graph.lang import read_lang
from bayes_asr.decode.graph.lang_dir import LangOptions, write_lang
from bayes_asr.decode.graph.lexicon import Pronunciation
from bayes_asr.decode.graph.transducers import build_fst
from bayes_asr.decode.search.utterance import choose_engine
from bayes_asr.kaldi_io.context_dependency import build_monophone_tree
from bayes_asr.kaldi_io.fst import write_fst
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.kaldi_io.text import write_mapping
from bayes_asr.kaldi_io.tree import write_tree
from tests.decode.align.test_timing_aligner import cheapest, phones_of
from tests.support.kaldi_programs import NEEDS_KALDI, run_kaldi

ENGINE = choose_engine()
PHONES = {"<eps>": 0, "SIL": 1, "A": 2, "B": 3}
WORDS = {"<eps>": 0, "a": 1, "ab": 2, "b": 3, "pause": 4, "#0": 5, "<s>": 6, "</s>": 7}
LEXICON = [
    Pronunciation("a", 0.7, ("A",)),
    Pronunciation("a", 0.3, ("B", "B", "A")),
    Pronunciation("ab", 1.0, ("A", "B")),
    Pronunciation("ab", 0.25, ("B", "A")),
    Pronunciation("b", 1.0, ("B",)),
    Pronunciation("pause", 1.0, ("SIL",)),
]
# lexiconp_silprob.txt: a pause behind the word, and how it corrects a pause and none before it.
AROUND = [(0.2, 1.5, 0.8), (0.2, 0.5, 1.25), (0.4, 1.0, 1.0), (0.3, 1.0, 1.0), (0.6, 1.0, 1.0)]
AROUND.append((0.1, 1.0, 1.0))
SILPROB = "<s> 0.9\n</s>_s 1.1\n</s>_n 0.8\noverall 0.3\n"
PLAIN = """1 1 A a 0.57982
1 2 A a 1.96611
1 3 B a 1.20397
3 4 B <eps>
4 1 A <eps> 0.22314
4 2 A <eps> 1.60944
1 5 A ab
5 1 B <eps> 0.22314
5 2 B <eps> 1.60944
1 6 B ab 1.38629
6 1 A <eps> 0.22314
6 2 A <eps> 1.60944
1 1 B b 0.22314
1 2 B b 1.60944
"""
BY_WORD = """1 3 A a 0.57982
2 3 A a -0.04879
3 1 <eps> <eps> 0.22314
3 2 SIL <eps> 1.60944
1 4 B a 0.98083
2 4 B a 1.89712
4 5 B <eps>
5 6 A <eps>
6 1 <eps> <eps> 0.22314
6 2 SIL <eps> 1.60944
1 7 A ab
2 7 A ab
7 8 B <eps>
8 1 <eps> <eps> 0.51083
8 2 SIL <eps> 0.91629
1 9 B ab 1.38629
2 9 B ab 1.38629
9 10 A <eps>
10 1 <eps> <eps> 0.35667
10 2 SIL <eps> 1.20397
1 11 B b
2 11 B b
11 1 <eps> <eps> 0.91629
11 2 SIL <eps> 0.51083
1 12 SIL pause
2 12 SIL pause
12 1 <eps> <eps> 0.10536
12 2 SIL <eps> 2.30259
2 -0.09531
1 0.22314
"""
LAYOUTS = {
    "lang/make_lexicon_fst.py": "0 1 <eps> <eps> 0.22314\n0 2 <eps> <eps> 1.60944\n2 1 SIL <eps>\n"
    + PLAIN
    + "1 1 SIL pause 0.22314\n1 2 SIL pause 1.60944\n1 0\n",
    "make_lexicon_fst.pl": "0 1 <eps> <eps> 0.22314\n0 1 SIL <eps> 1.60944\n2 1 SIL <eps>\n"
    + PLAIN
    + "1 1 SIL pause\n1 0\n",
    "lang/make_lexicon_fst_silprob.py": "0 1 <eps> <eps> 2.30259\n0 2 SIL <eps> 0.10536\n"
    + BY_WORD,
    "make_lexicon_fst_silprob.pl": "0 2 SIL <eps> 0.10536\n0 1 <eps> <eps> 2.30259\n" + BY_WORD,
}
COMMANDS = {
    "lang/make_lexicon_fst.py": "--sil-prob=0.2 --sil-phone=SIL lexiconp.txt",
    "make_lexicon_fst.pl": "--pron-probs lexiconp.txt 0.2 SIL",
    "lang/make_lexicon_fst_silprob.py": "--sil-phone=SIL lexiconp_silprob.txt silprob.txt",
    "make_lexicon_fst_silprob.pl": "lexiconp_silprob.txt silprob.txt SIL '<eps>'",
}
each_layout = pytest.mark.parametrize("script", LAYOUTS)
TextArc = tuple[int, int, str, str, float]  # source, target, phone, word, cost


def parse(text: str) -> tuple[list[TextArc], dict[int, float]]:
    """The arcs of a text of an FST, and the costs of its final states; a cost of 0 may lack."""
    arcs, final = [], {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) <= 2:
            final[int(fields[0])] = float(fields[1])
        else:
            source, target, phone, word, *cost = fields
            arcs.append((int(source), int(target), phone, word, round(float([*cost, 0][0]), 5)))
    return arcs, {state: round(cost, 5) for state, cost in final.items()}


def write_model(folder: Path) -> None:
    """A model of two states for each of three phones, without context."""
    write_transition_model(build_monophone_model([1, 2, 3], 2), folder / "final.mdl")
    write_tree(build_monophone_tree({1: [0, 1], 2: [2, 3], 3: [4, 5]}), folder / "tree")


def write_lang_files(folder: Path, text: str) -> Path:
    """What prepare_lang.sh writes around an L.fst of this text, and a model of two states."""
    arcs, final = parse(text)
    numbered = [(s, PHONES[p], WORDS[w], cost, target) for s, target, p, w, cost in arcs]
    write_fst(build_fst(numbered, final), folder / "L.fst", "vector")
    write_mapping(PHONES.items(), folder / "phones.txt")
    write_mapping(WORDS.items(), folder / "words.txt")
    (folder / "phones").mkdir(exist_ok=True)
    (folder / "phones" / "optional_silence.txt").write_text("SIL\n")
    rows = ["<eps> <eps> SIL", *(" ".join((e.word, e.word, *e.phones)) for e in LEXICON)]
    (folder / "phones" / "align_lexicon.txt").write_text("\n".join(rows) + "\n")
    write_model(folder)
    return folder


def open_folder(folder: Path) -> Pronouncer:
    return read_pronouncer(folder, folder / "final.mdl")


def speak(phones: Sequence[tuple[str, int]]) -> np.ndarray:
    """Log-likelihoods of phones of so many frames, each half in either state."""
    rows = [(PHONES[p] - 1) * 2 + (f >= n // 2) for p, n in phones for f in range(n)]
    loglikes = np.full((len(rows), 6), -5.0, np.float32)
    loglikes[np.arange(len(rows)), rows] = -0.1
    return loglikes


def sayings(text: str, words: Sequence[str]) -> dict[tuple[int, ...], float]:
    """Every sequence of phones by which an FST of this text writes `words`, and its cost."""
    arcs, final = parse(text)

    def walk(state: int, rest: Sequence[str]) -> Iterator[tuple[float, tuple[int, ...]]]:
        if not rest and state in final:
            yield final[state], ()
        for source, target, phone, word, cost in arcs:
            if source == state and (word == "<eps>" or [word] == [*rest[:1]]):
                spoken = (PHONES[phone],) if PHONES[phone] else ()
                for further, behind in walk(target, rest[word != "<eps>" :]):
                    yield cost + further, (*spoken, *behind)

    costs: dict[tuple[int, ...], float] = {}
    for cost, phones in walk(0, words):
        costs[phones] = -np.logaddexp(-costs.get(phones, math.inf), -cost)
    return costs


@NEEDS_KALDI[0]
@NEEDS_KALDI[1]
@each_layout
def test_the_layout_is_what_the_script_prints(script: str, tmp_path: Path) -> None:
    heads = [f"{entry.word} {entry.probability}" for entry in LEXICON]
    tails = [" ".join(entry.phones) for entry in LEXICON]
    middles = [" ".join(map(str, around)) for around in AROUND]
    plain = map(" ".join, zip(heads, tails, strict=True))
    by_word = map(" ".join, zip(heads, middles, tails, strict=True))
    (tmp_path / "lexiconp.txt").write_text("\n".join(plain) + "\n")
    (tmp_path / "lexiconp_silprob.txt").write_text("\n".join(by_word) + "\n")
    (tmp_path / "silprob.txt").write_text(SILPROB)
    program = f'"$KALDI_ROOT"/egs/wsj/s5/utils/{script}'
    printed = run_kaldi(tmp_path, f"{program} {COMMANDS[script]}")
    assert parse(printed) == parse(LAYOUTS[script])


@each_layout
def test_word_times_are_those_of_the_sound(script: str, tmp_path: Path) -> None:
    speech = open_folder(write_lang_files(tmp_path, LAYOUTS[script]))
    spoken = [("SIL", 30), ("A", 8), ("SIL", 30), ("A", 8), ("B", 10), ("B", 6), ("SIL", 30)]
    words, loglikes = ["a", "ab", "b"], speak(spoken)
    found = align_utterance("u", words, loglikes, speech, AlignOptions(1.0), ENGINE)
    times = [(30, 38), (68, 86), (86, 92)]
    assert word_spans(words, found.transition_ids, speech) == times
    partial = PartialAligner(speech, AlignOptions(1.0), ENGINE)
    assert [(word.start, word.end) for word in partial.align("u", words, loglikes)] == times


@each_layout
@pytest.mark.parametrize("words", [["a"], ["ab", "a"], ["a", "ab", "b"], ["b", "pause", "a"]])
def test_the_best_path_is_that_of_the_scripts_transducer(
    script: str, words: list[str], tmp_path: Path
) -> None:
    speech = open_folder(write_lang_files(tmp_path, LAYOUTS[script]))
    ways = sayings(LAYOUTS[script], words)
    rng, options = np.random.default_rng(5), AlignOptions(acoustic_scale=0.05, beam=1000.0)
    for _ in range(4):
        loglikes = rng.normal(0, 5, (24, 6)).astype(np.float32)
        costs = -0.05 * loglikes.astype(float)
        best = min(cost + cheapest(phones, costs, speech) for phones, cost in ways.items())
        found = align_utterance("u", words, loglikes, speech, options, ENGINE)
        assert found.cost == pytest.approx(best, abs=2e-3)
        assert tuple(phones_of(found.transition_ids, speech)) in ways


@pytest.mark.parametrize("script", [*LAYOUTS][:2])
def test_pronunciations_and_pauses_are_those_of_the_lexicon(script: str, tmp_path: Path) -> None:
    lang = read_lang(write_lang_files(tmp_path, LAYOUTS[script]))
    assert lang.silence_probability == pytest.approx(0.2, abs=1e-5)
    assert [replace(e, probability=round(e.probability, 4)) for e in lang.lexicon] == LEXICON


@pytest.mark.parametrize("script", [*LAYOUTS][2:])
def test_pauses_of_words_are_averaged(script: str, tmp_path: Path) -> None:
    lang = read_lang(write_lang_files(tmp_path, LAYOUTS[script]))
    pause = sum(behind for behind, *_ in AROUND) / len(AROUND)
    assert lang.silence_probability == pytest.approx(pause, abs=1e-5)
    expected = [
        entry.probability * (pause * paused + (1 - pause) * unpaused)
        for entry, (_, paused, unpaused) in zip(LEXICON, AROUND, strict=True)
    ]
    assert [entry.probability for entry in lang.lexicon] == pytest.approx(expected, abs=1e-4)


def test_what_the_transducer_lacks_is_announced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_lang_files(tmp_path, LAYOUTS["make_lexicon_fst.pl"])
    with (tmp_path / "phones" / "align_lexicon.txt").open("a") as file:
        file.write("b b B A A\n")
    with caplog.at_level(logging.WARNING):
        assert read_lang(tmp_path).lexicon[-1] == Pronunciation("b", 1.0, ("B", "A", "A"))
    assert "L.fst: lacks 1 of 7 pronunciations" in caplog.text


@pytest.mark.parametrize(
    ("table", "without", "message"),
    [
        ("words.txt", "ab 2\n", "L.fst: word 2 is not in the words.txt"),
        ("phones.txt", "SIL 1\n", "phones.txt: lacks SIL, the phone of pauses"),
    ],
)
def test_tables_of_other_folders_are_refused(
    table: str, without: str, message: str, tmp_path: Path
) -> None:
    file = write_lang_files(tmp_path, LAYOUTS["make_lexicon_fst.pl"]) / table
    file.write_text(file.read_text().replace(without, ""))
    with pytest.raises(InputError, match=message):
        read_lang(tmp_path)


def test_a_phone_that_the_model_lacks_is_named(tmp_path: Path) -> None:
    strange = LAYOUTS["make_lexicon_fst.pl"].replace("1 1 B b", "1 1 C b")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PHONES, "C", 4)
        speech = open_folder(write_lang_files(tmp_path, strange))
    loglikes = speak([("SIL", 9), ("B", 9)])
    with pytest.raises(InputError, match=r"u: L\.fst says the phone 4, which the model of 3"):
        align_utterance("u", ["b"], loglikes, speech, AlignOptions(), ENGINE)


def test_further_words_have_pauses_as_the_others(tmp_path: Path) -> None:
    folder = write_lang_files(tmp_path, LAYOUTS["lang/make_lexicon_fst_silprob.py"])
    aba = Pronunciation("aba", 1.0, ("A", "B", "A"))
    speech = read_pronouncer(folder, folder / "final.mdl", None, [aba])
    spoken = [("SIL", 30), ("A", 8), ("SIL", 30), ("A", 8), ("B", 10), ("A", 6), ("SIL", 30)]
    words, loglikes = ["a", "aba"], speak(spoken)
    found = align_utterance("u", words, loglikes, speech, AlignOptions(1.0), ENGINE)
    assert word_spans(words, found.transition_ids, speech) == [(30, 38), (68, 92)]


DICT: Mapping[str, str] = {
    "lexiconp.txt": "a 0.9 A\na 0.01 B\nb 1.0 B A\n<unk> 1.0 SIL\n",
    "silence_phones.txt": "SIL\n",
    "nonsilence_phones.txt": "A\nB\n",
    "optional_silence.txt": "SIL\n",
    "text": "u1 a b a\nu2 b\n",
}


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """A dict folder, and what is made of it: a lang folder and the graphs of both."""
    for name, text in DICT.items():
        (tmp_path / name).write_text(text)
    write_model(tmp_path)
    lang, graph, lang_graph = (tmp_path / name for name in ("lang", "graph", "lang_graph"))
    options = LangOptions("<unk>", position_dependent=False, silence_probability=0.1)
    write_lang(tmp_path, lang, options)
    common = ["--text", tmp_path / "text", "--model", tmp_path / "final.mdl", "--out"]
    own = ["--lexicon", tmp_path / "lexiconp.txt", "--silence-prob", 0.1]
    own += ["--phones", lang / "phones.txt"]
    for arguments in ([*own, *common, graph], ["--lang", lang, *common, lang_graph]):
        assert main(["graph", *map(str, arguments)]) == 0
    return {"dict": tmp_path, "lang": lang, "graph": graph, "lang_graph": lang_graph}


def test_folders_of_one_lexicon_align_alike(folders: Mapping[str, Path]) -> None:
    """A sound that is rather B than A, but by less than the pronunciation B is rarer."""
    model, loglikes = folders["dict"] / "final.mdl", speak([("SIL", 9), ("A", 9), ("SIL", 9)])
    loglikes[9:18, 4:] = loglikes[9:18, 2:4].max() + 0.4
    table = folders["lang"] / "phones.txt"
    (folders["dict"] / "phones.txt").write_bytes(table.read_bytes())
    expected = set(read_lang(folders["dict"]).lexicon)
    costs = []
    for kind, folder in folders.items():
        speech = read_pronouncer(folder, model)
        assert set(speech.lang.lexicon) == expected, kind
        found = align_utterance("u", ["a"], loglikes, speech, AlignOptions(0.1), ENGINE)
        assert phones_of(found.transition_ids, speech) == [1, 2, 1], kind
        assert speech.lang.silence_probability == (0.5 if kind == "dict" else 0.1)
        costs.append(found.cost)
    # Each of both pauses costs -log(p).
    assert costs[0] - costs[1] == pytest.approx(2 * math.log(0.1 / 0.5), abs=1e-4)
    assert costs[1:] == pytest.approx([costs[1]] * 3, abs=1e-5)


def test_a_folder_without_lists_of_silence_takes_it_by_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As `graph --lexicon` takes it: SIL or sil of the model."""
    bare = tmp_path / "bare"
    for folder in (tmp_path, bare):
        folder.mkdir(exist_ok=True)
        (folder / "lexiconp.txt").write_text(DICT["lexiconp.txt"])
    (tmp_path / "optional_silence.txt").write_text("SIL\n")
    model, table = tmp_path / "final.mdl", tmp_path / "phones.txt"
    write_model(tmp_path)
    write_mapping(PHONES.items(), table)
    loglikes = speak([("SIL", 9), ("A", 9), ("SIL", 9), ("B", 8), ("A", 8), ("SIL", 9)])
    listed, named = (
        align_utterance("u", ["a", "b"], loglikes, speech, AlignOptions(1.0), ENGINE)
        for speech in (read_pronouncer(folder, model) for folder in (tmp_path, bare))
    )
    np.testing.assert_array_equal(named.transition_ids, listed.transition_ids)
    assert not caplog.records
    table.write_text(table.read_text().replace("SIL", "PAU"))
    assert not read_pronouncer(bare, model).silence
    assert "which phone is silence?" in caplog.text


def test_a_graph_of_a_lexicon_has_the_lexicon_of_its_lang_folder(
    folders: Mapping[str, Path],
) -> None:
    names = ("lang", "graph", "lang_graph")
    lexicons = [(folders[name] / "L.fst").read_bytes() for name in names]
    assert lexicons == lexicons[:1] * 3


def test_no_lexicon_of_an_earlier_graph_is_left(folders: Mapping[str, Path]) -> None:
    lang, dictionary, graph = folders["lang"], folders["dict"], folders["graph"]
    (lang / "L.fst").unlink()
    sources = ["--text", dictionary / "text", "--model", dictionary / "final.mdl"]
    assert main(["graph", "--lang", *map(str, [lang, *sources, "--out", graph])]) == 0
    assert not (graph / "L.fst").exists()


def test_a_graph_may_lie_in_its_lang_folder(folders: Mapping[str, Path]) -> None:
    lang, dictionary = folders["lang"], folders["dict"]
    sources = ["--text", dictionary / "text", "--model", dictionary / "final.mdl"]
    assert main(["graph", "--lang", *map(str, [lang, *sources, "--out", lang])]) == 0
    assert (lang / "L.fst").read_bytes() == (folders["graph"] / "L.fst").read_bytes()
