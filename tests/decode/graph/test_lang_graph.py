"""Decoding graphs of lang folders: the same as of their lexicons, with the folder's own pauses."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.decode.align.transcripts import read_pronouncer
from bayes_asr.decode.graph import compose
from bayes_asr.decode.graph.dictionary import SUFFIXES
from bayes_asr.decode.graph.lang import read_silence_phones
from bayes_asr.decode.graph.lang_dir import LangOptions, write_lang
from bayes_asr.decode.graph.transducers import Arc, build_fst
from bayes_asr.kaldi_io.context_dependency import build_monophone_tree
from bayes_asr.kaldi_io.fst import write_fst
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mdl import read_topology, write_transition_model
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.tree import write_tree
from tests.support.tiny_task import run_verb

pytest.importorskip("kaldifst")
DICT = {
    "lexicon.txt": "ab a b\nab b\na a\nnoise spn\n",
    "silence_phones.txt": "sil\nspn\n",
    "nonsilence_phones.txt": "a\nb\n",
    "optional_silence.txt": "sil\n",
    "text": "u1 ab a\nu2 a noise ab\nu3 ab\n",
}
SMALL = """\\data\\
ngram 1=4

\\1-grams:
-0.3 </s>
-99 <s>
-0.6 ab
-0.6 a

\\end\\
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dict folder, the lang folder that is made of it, and a model of three states a phone."""
    for name, text in DICT.items():
        (tmp_path / name).write_text(text)
    write_lang(tmp_path, tmp_path / "lang", LangOptions(oov="noise", silence_probability=0.2))
    phones = [*read_topology(tmp_path / "lang" / "topo")]
    model = build_monophone_model(phones)
    write_transition_model(model, tmp_path / "final.mdl")
    pdfs = {p: range(3 * i, 3 * i + 3) for i, p in enumerate(sorted(phones))}
    write_tree(build_monophone_tree(pdfs), tmp_path / "tree")
    return tmp_path


def same_graph(one: Path, other: Path) -> bool:
    return (one / "HCLG.fst").read_bytes() == (other / "HCLG.fst").read_bytes()


def test_a_folder_gives_the_graph_of_its_lexicon(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ("--text", folder / "text", "--model", folder / "final.mdl", "--out")
    run_verb("--lang", folder / "lang", *common, folder / "one", "--json")
    summary = json.loads(capsys.readouterr().out)
    assert summary["words"] == 3
    assert "silence_probability" not in summary
    own = ("--phones", folder / "lang" / "phones.txt", "--silence-prob")
    run_verb("--lexicon", folder / "lexicon.txt", *own, 0.2, *common, folder / "other")
    assert same_graph(folder / "one", folder / "other")
    run_verb("--lexicon", folder / "lexicon.txt", *own, 0.5, *common, folder / "third")
    assert not same_graph(folder / "one", folder / "third")
    copies = ("words.txt", "phones.txt", "phones/word_boundary.int", "phones/silence.csl")
    for name in (*copies, "oov.txt", "oov.int"):
        assert (folder / "one" / name).read_bytes() == (folder / "lang" / name).read_bytes()
    assert "noise" in read_symbols(folder / "one" / "words.txt")
    silence = "phones/silence.csl"
    assert (folder / "other" / silence).read_bytes() == (folder / "lang" / silence).read_bytes()
    forms = [f"{phone}{suffix}" for phone in ("sil", "spn") for suffix in ("", *SUFFIXES)]
    for directory in ("lang", "one", "other"):
        assert read_silence_phones(folder / directory) == forms
    assert read_silence_phones(folder) == ["sil", "spn"]


@pytest.mark.parametrize("source", ["--text", "--lm"])
def test_words_txt_may_lack_the_ends_of_sentences(
    folder: Path, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As that of Kaldi's older folders; arpa2fst adds them."""
    (folder / "model.arpa").write_text(SMALL)
    file = folder / ("text" if source == "--text" else "model.arpa")
    common = (source, file, "--model", folder / "final.mdl", "--json", "--out")
    run_verb("--lang", folder / "lang", *common, folder / "whole")
    old = shutil.copytree(folder / "lang", folder / "old")
    table = (old / "words.txt").read_text().splitlines(keepends=True)
    assert [line.split()[0] for line in table[-2:]] == ["<s>", "</s>"]
    (old / "words.txt").write_text("".join(table[:-2]))
    run_verb("--lang", old, *common, folder / "other")
    assert same_graph(folder / "whole", folder / "other")
    whole, other = map(json.loads, capsys.readouterr().out.splitlines())
    assert other == whole
    assert other["words"] == 3


@pytest.mark.parametrize("optional", ["sil", "spn"])
def test_a_phone_of_pauses_leaves_noise_among_silence(folder: Path, optional: str) -> None:
    """As a lang folder with this optional silence has it; phones that the model lacks are none."""
    (folder / "optional_silence.txt").write_text(f"{optional}\n")
    write_lang(folder, folder / "another", LangOptions(oov="noise"))
    (folder / "optional_silence.txt").write_text("sil\n")
    (folder / "silence_phones.txt").write_text("sil\nspn\nbreath\n")
    given = ("--lexicon", folder / "lexicon.txt", "--phones", folder / "lang" / "phones.txt")
    sources = ("--text", folder / "text", "--model", folder / "final.mdl")
    run_verb(*given, *sources, "--silence", optional, "--out", folder / "graph")
    for name in ("silence.csl", "optional_silence.txt"):
        made, expected = (
            (folder / directory / "phones" / name).read_text().strip().split(":")
            for directory in ("graph", "another")
        )
        assert sorted(made) == sorted(expected)


def test_what_an_earlier_graph_of_the_folder_has_goes(folder: Path) -> None:
    """Whichever way the first one was made, the folder ends as one that was empty."""
    (folder / "small.arpa").write_text(SMALL)
    (folder / "words").write_text("ab a b\na a\n")  # without the word of oov.txt
    own = ("--phones", folder / "lang" / "phones.txt")
    ways = {
        "of-text": ("--lang", folder / "lang", "--text", folder / "text"),
        "of-lexicon": ("--lexicon", folder / "words", *own, "--lm", folder / "small.arpa"),
        "apart": ("--lang", folder / "lang", "--lm", folder / "small.arpa", "--apart"),
    }
    contents = {}
    for way, given in ways.items():
        for out in (folder / way, folder / "again"):
            run_verb(*given, "--model", folder / "final.mdl", "--out", out)
            (out / "lm.former.arpa").unlink(missing_ok=True)  # which may be somebody's own
            files = {path.relative_to(out): path for path in out.rglob("*") if path.is_file()}
            contents[out] = {str(name): path.read_bytes() for name, path in files.items()}
        assert contents[folder / way] == contents[folder / "again"]
    assert "phones/word_boundary.int" in contents[folder / "of-text"]


def test_a_model_that_is_read_and_a_word_of_ones_own_stay(folder: Path) -> None:
    graph = folder / "graph"
    own = ("--phones", folder / "lang" / "phones.txt", "--model", folder / "final.mdl")
    given = ("--lexicon", folder / "lexicon.txt", *own, "--out", graph)
    run_verb(*given, "--text", folder / "text")
    (graph / "oov.txt").write_text("noise\n")
    run_verb(*given, "--lm", graph / "lm.arpa")
    assert {"lm.arpa", "oov.txt"} <= {path.name for path in graph.iterdir()}
    # A copy of what is read stays too, and another model is set aside.
    former = (graph / "lm.arpa").read_bytes()
    shutil.copyfile(graph / "lm.arpa", folder / "own.arpa")
    run_verb(*given, "--lm", folder / "own.arpa")
    assert (graph / "lm.arpa").read_bytes() == former
    (folder / "own.arpa").write_bytes(former + b"\n")
    run_verb(*given, "--lm", folder / "own.arpa")
    assert not (graph / "lm.arpa").exists()
    assert (graph / "lm.former.arpa").read_bytes() == former


def test_an4_has_the_graph_of_its_lexicon(
    kaldi_corpus: Callable[[str], Path], tmp_path: Path
) -> None:
    root = kaldi_corpus("an4")
    data, model = root / "data", root / "exp" / "mono_ali" / "final.mdl"
    common = ("--lm", data / "lm.arpa", "--model", model, "--out")
    run_verb("--lang", data / "lang", *common, tmp_path / "one")
    run_verb("--lexicon", data / "dict" / "lexicon.txt", *common, tmp_path / "other")
    assert same_graph(tmp_path / "one", tmp_path / "other")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"--silence": "sil"}, "--silence: of no use with --lang"),
        ({"--silence-prob": "0.1", "--phones": "x"}, "--phones, --silence-prob: of no use"),
        ({"--model": None}, "--lang needs the --model"),
    ],
)
def test_options_that_a_folder_answers_are_refused(
    options: Mapping[str, str | None], said: str, folder: Path
) -> None:
    given: dict[str, object] = {
        "--lang": folder / "lang",
        "--text": folder / "text",
        "--model": folder / "final.mdl",
        "--out": folder / "graph",
    }
    chosen = {k: v for k, v in {**given, **options}.items() if v is not None}
    with pytest.raises(InputError, match=said):
        run_verb(*(word for pair in chosen.items() for word in pair))


def test_a_folder_of_another_model_is_refused(folder: Path) -> None:
    write_transition_model(build_monophone_model([1, 2]), folder / "final.mdl")
    common = ("--text", folder / "text", "--model", folder / "final.mdl")
    with pytest.raises(InputError, match="the model of 2 phones lacks"):
        run_verb("--lang", folder / "lang", *common, "--out", folder / "graph")


def test_a_folder_that_numbers_phones_differently_is_refused(folder: Path) -> None:
    lang, table = folder / "lang", folder / "phones.txt"
    lines = (lang / "phones.txt").read_text().splitlines()
    plain = "\n".join(line for line in lines if line[0] != "#")
    common = ("--text", folder / "text", "--model", folder / "final.mdl", "--out")
    _, *phones = plain.splitlines()
    for known in ([plain], phones, phones[:-1]):  # of the model: without # and <eps>, and fewer
        table.write_text("\n".join(known))
        run_verb("--lang", lang, *common, folder / "graph")
    first = lines[1].split()[0]
    for changed, said in (("other 1", "is 1, but none in"), (f"{first} 99", "is 1, but 99 in")):
        table.write_text(plain.replace(f"{first} 1", changed))
        message = f"lang/phones.txt: the id of {first} {said} {table}"
        with pytest.raises(InputError, match=message):
            run_verb("--lang", lang, *common, folder / "refused")
        with pytest.raises(InputError, match=message):
            read_pronouncer(lang, folder / "final.mdl")
    assert not (folder / "refused").exists()


def without_backoff(lang: Path) -> None:
    (lang / "words.txt").write_text((lang / "words.txt").read_text().replace("#0", "#9"))


def other_words(lang: Path) -> None:
    (lang / "words.txt").write_text("<eps> 0\nab 1\n#0 99\n")


def empty_lexicon(lang: Path) -> None:
    none, weights = np.empty(0, np.int32), np.empty(0, np.float32)
    fst = Fst(
        start=0,
        final=np.zeros(1, np.float32),
        offsets=np.zeros(2, np.int64),
        ilabel=none,
        olabel=none,
        weight=weights,
        nextstate=none,
    )
    write_fst(fst, lang / "L_disambig.fst", "vector")


def lexicon_of(*arcs: Arc) -> Callable[[Path], None]:
    """Damage that makes L_disambig.fst one of these arcs, which ends in state 0."""
    return lambda lang: write_fst(build_fst(arcs, {0: 0.0}), lang / "L_disambig.fst", "vector")


HOMOPHONES = lexicon_of((0, 3, 1, 0.0, 0), (0, 3, 2, 0.0, 0))
# Before the phone 4 says which, any number of phones 3 costs 1 or 2 each: no two subsets are equal.
TWINS = lexicon_of(
    *((0, 3, 1, 0.0, 1), (0, 3, 2, 0.0, 2), (1, 3, 0, 1.0, 1), (2, 3, 0, 2.0, 2)),
    *((1, 4, 0, 0.0, 0), (2, 5, 0, 0.0, 0)),
)
MUTE = lexicon_of((0, 0, 1, 0.0, 0))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (HOMOPHONES, "L composed with G cannot be made deterministic: FST was not functional"),
        (TWINS, "L composed with G cannot be made deterministic: .* passed 20"),
        (MUTE, "lexicon and language model have no sentence in common"),
        (without_backoff, r"words.txt: lacks #0"),
        (other_words, r"L_disambig.fst: word 2 is not in the words.txt of 3 symbols"),
        (empty_lexicon, r"L_disambig.fst: has no pronunciations"),
    ],
)
def test_lang_folder_whose_files_do_not_agree_is_refused(
    damage: Callable[[Path], None], said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compose, "MOST_STATES", 2000)
    damage(folder / "lang")
    common = ("--text", folder / "text", "--model", folder / "final.mdl", "--out", folder / "out")
    with pytest.raises(InputError, match=said):
        run_verb("--lang", folder / "lang", *common)
