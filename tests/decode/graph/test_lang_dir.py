"""Lang folders against those of Kaldi's prepare_lang.sh, of real corpora and a small dictionary."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.lang import read_lang
from bayes_asr.decode.graph.lang_dir import LangOptions, write_lang
from bayes_asr.decode.graph.topology import build_topology, write_topology
from bayes_asr.decode.graph.transducers import sources
from bayes_asr.kaldi_io.fst import read_fst
from bayes_asr.kaldi_io.mdl import read_topology
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.symbols import read_symbols
from tests.attacks.laboratory import contents

PLAIN: dict[str, Any] = {"position_dependent": False}
CORPORA: dict[str, dict[str, Any]] = {
    "timit_sample": {"oov": "sil", "silence_probability": 0.0, "silence_states": 3, **PLAIN},
    "an4": {"oov": "<UNK>", **PLAIN},
    "mboshi": {"oov": "spn", **PLAIN},
}
DICT = {
    "lexiconp.txt": """!SIL 1.0\tsil
<unk> 1.0\tspn
<noise> 1.0\tnsn
a 0.7\ta
a 0.3\te i
bad 0.5\tb a1 d
bad 1.0\tb a d
tab 0.25\tt a b
b 1.0\tb
""",
    "silence_phones.txt": "sil\nspn nsn\n",
    "nonsilence_phones.txt": "a a1\nb\nd\ne\ni\nt\n",
    "optional_silence.txt": "sil\n",
    "extra_questions.txt": "sil spn nsn\na e i\na1\n",
}
# What prepare_lang.sh of Kaldi writes for it.
POSITIONS = {
    "sets": """sil sil_B sil_E sil_I sil_S
spn spn_B spn_E spn_I spn_S nsn nsn_B nsn_E nsn_I nsn_S
a_B a_E a_I a_S a1_B a1_E a1_I a1_S
b_B b_E b_I b_S
d_B d_E d_I d_S
e_B e_E e_I e_S
i_B i_E i_I i_S
t_B t_E t_I t_S
""",
    "extra_questions": """sil sil_B sil_E sil_I sil_S spn spn_B spn_E spn_I spn_S \
nsn nsn_B nsn_E nsn_I nsn_S
a_B a_E a_I a_S e_B e_E e_I e_S i_B i_E i_I i_S
a1_B a1_E a1_I a1_S
a_B a1_B b_B d_B e_B i_B t_B \n\
a_E a1_E b_E d_E e_E i_E t_E \n\
a_I a1_I b_I d_I e_I i_I t_I \n\
a_S a1_S b_S d_S e_S i_S t_S \n\
sil spn nsn \n\
sil_B spn_B nsn_B \n\
sil_E spn_E nsn_E \n\
sil_I spn_I nsn_I \n\
sil_S spn_S nsn_S \n\
""",
    "align_lexicon": """!SIL !SIL sil_S
<eps> <eps> sil
<noise> <noise> nsn_S
<unk> <unk> spn_S
a a a_S
a a e_B i_E
b b b_S
bad bad b_B a1_I d_E
bad bad b_B a_I d_E
tab tab t_B a_I b_E
""",
}


def write_files(folder: Path, files: Mapping[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def sorted_arcs(fst: Fst) -> np.ndarray:
    """Every arc with its source; the order of those of one state means nothing."""
    arcs = np.stack([sources(fst), fst.olabel, fst.ilabel, fst.nextstate, fst.weight])
    return arcs[:, np.lexsort(arcs[::-1])]


@pytest.mark.parametrize("corpus", CORPORA)
def test_folders_of_corpora_are_kaldis(
    corpus: str, kaldi_corpus: Callable[[str], Path], tmp_path: Path
) -> None:
    data = kaldi_corpus(corpus) / "data"
    write_lang(data / "dict", tmp_path, LangOptions(**CORPORA[corpus]))
    kaldis = {p.relative_to(data / "lang") for p in (data / "lang").rglob("*.*")} | {Path("topo")}
    ours = {p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file()}
    assert ours == kaldis - {Path("G.fst")}
    for path in ours:
        if path.suffix != ".fst":
            assert (tmp_path / path).read_bytes() == (data / "lang" / path).read_bytes(), path
        else:
            found, expected = read_fst(tmp_path / path), read_fst(data / "lang" / path)
            assert found.start == expected.start
            assert found.final.tolist() == expected.final.tolist()
            assert np.array_equal(sorted_arcs(found), sorted_arcs(expected))


def test_word_positions_are_those_of_the_script(tmp_path: Path) -> None:
    write_lang(write_files(tmp_path / "dict", DICT), tmp_path / "lang", LangOptions("<unk>"))
    folder = tmp_path / "lang" / "phones"
    for name, text in POSITIONS.items():
        assert (folder / f"{name}.txt").read_text() == text
    phones = read_symbols(tmp_path / "lang" / "phones.txt")
    asked = [line.split() for line in POSITIONS["extra_questions"].splitlines()]
    numbers = [" ".join(str(phones[phone]) for phone in line) for line in asked]
    assert (folder / "extra_questions.int").read_text().splitlines() == numbers
    places = dict(line.split() for line in (folder / "word_boundary.txt").read_text().splitlines())
    assert [*places] == [phone for phone in phones if phone[0] not in "<#"]
    assert {p: places[p] for p in ("sil", "sil_S", "spn_B", "a1_I", "t_E")} == {
        "sil": "nonword",
        "sil_S": "singleton",
        "spn_B": "begin",
        "a1_I": "internal",
        "t_E": "end",
    }
    words = (folder.parent / "words.txt").read_text().split()[::2]
    assert " ".join(words) == "<eps> !SIL <noise> <unk> a b bad tab #0 <s> </s>"


@pytest.mark.parametrize(
    ("out", "holds"), [("dict", "what is read"), ("table", "words.txt"), ("graph", "HCLG.fst")]
)
def test_what_is_no_lang_folder_stays(out: str, holds: str, tmp_path: Path) -> None:
    """A graph or a model whose table of words or phones was replaced would be of no use."""
    write_files(tmp_path / "dict", DICT)
    write_files(tmp_path / "table", {"words.txt": "<eps> 0\n"})
    # bayes-asr graph leaves the transducer of the lexicon beside.
    write_files(tmp_path / "graph", {"words.txt": "<eps> 0\n", "L.fst": "", "HCLG.fst": ""})
    before = contents(tmp_path)
    with pytest.raises(InputError, match=f"{out}: holds {holds}"):
        write_lang(tmp_path / "dict", tmp_path / out, LangOptions("<unk>"))
    assert contents(tmp_path) == before


def test_a_lang_folder_that_lacks_files_is_made_anew(tmp_path: Path) -> None:
    write_files(tmp_path / "dict", DICT)
    write_lang(tmp_path / "dict", tmp_path / "lang", LangOptions("<unk>"))
    before = contents(tmp_path)
    (tmp_path / "lang" / "L.fst").unlink()
    write_lang(tmp_path / "dict", tmp_path / "lang", LangOptions("<unk>"))
    assert contents(tmp_path) == before


def test_silence_phones_may_share_their_states(tmp_path: Path) -> None:
    write_files(tmp_path / "dict", DICT)
    write_lang(
        tmp_path / "dict",
        tmp_path / "lang",
        LangOptions(oov="<unk>", share_silence_phones=True, **PLAIN),
    )
    roots = (tmp_path / "lang" / "phones" / "roots.txt").read_text().splitlines()
    assert roots[:2] == ["not-shared not-split sil spn nsn", "shared split a a1"]
    numbers = (tmp_path / "lang" / "phones" / "roots.int").read_text().splitlines()
    assert numbers[:2] == ["not-shared not-split 1 2 3", "shared split 4 5"]
    assert (tmp_path / "lang" / "phones" / "silence.csl").read_text() == "1:2:3\n"
    assert not (tmp_path / "lang" / "phones" / "word_boundary.txt").exists()


def test_pronunciations_and_pauses_have_their_probabilities(tmp_path: Path) -> None:
    write_files(tmp_path / "dict", DICT)
    lang = tmp_path / "lang"
    write_lang(tmp_path / "dict", lang, LangOptions(oov="<unk>", silence_probability=0.1, **PLAIN))
    fst = read_fst(lang / "L_disambig.fst")
    phones, words = read_symbols(lang / "phones.txt"), read_symbols(lang / "words.txt")
    arcs = sorted_arcs(fst)

    def cost(word: str, phone: str) -> list[float]:  # of the arcs between words
        return sorted(
            arcs[4, np.equal(arcs[:3].T, [1, words[word], phones[phone]]).all(1)].tolist()
        )

    skip, take = -np.log(0.9), -np.log(0.1)
    assert cost("a", "a") == pytest.approx([skip - np.log(0.7), take - np.log(0.7)])
    assert cost("a", "e") == pytest.approx([-np.log(0.3)])
    assert cost("bad", "b") == pytest.approx([0.0, -np.log(0.5)])
    assert cost("#0", "#0") == [0.0]
    start = arcs[:, arcs[0] == fst.start]
    assert start[4].tolist() == pytest.approx([skip, take])
    assert read_lang(lang).silence_probability == pytest.approx(0.1)


def test_another_run_leaves_no_old_files(tmp_path: Path) -> None:
    write_files(tmp_path / "dict", DICT)
    write_lang(tmp_path / "dict", tmp_path / "lang", LangOptions("<unk>"))
    write_lang(tmp_path / "dict", tmp_path / "lang", LangOptions("<unk>", position_dependent=False))
    assert not list((tmp_path / "lang" / "phones").glob("word_boundary.*"))


def test_the_dictionary_may_say_word_boundaries(tmp_path: Path) -> None:
    said = "".join(f"{p} nonword\n" for p in ("sil", "spn", "nsn")) + "a begin\n"
    write_files(tmp_path / "dict", {**DICT, "word_boundary.txt": said})
    write_lang(tmp_path / "dict", tmp_path / "lang", LangOptions("<unk>", position_dependent=False))
    folder = tmp_path / "lang" / "phones"
    assert (folder / "word_boundary.txt").read_text() == said
    assert (folder / "word_boundary.int").read_text().splitlines()[-1] == "4 begin"


@pytest.mark.parametrize(
    ("changed", "options", "said"),
    [
        ({}, {"oov": "<oov>"}, "the lexicon lacks <oov>"),
        ({}, {"oov": "a", "silence_probability": 1.0}, "from 0 to below 1, not 1"),
        ({}, {"oov": "a", "silence_states": 2}, "1 or 3 to 100 states, not 2"),
        ({}, {"oov": "a", "nonsilence_states": 0}, "1 to 100 states, not 0"),
        ({"optional_silence.txt": "pause\n"}, {"oov": "a"}, "the phone pause is not in silence"),
        ({"optional_silence.txt": "sil spn\n"}, {"oov": "a"}, "holds 2 phones, not one"),
        ({"nonsilence_phones.txt": "a a1 b e i t\n"}, {"oov": "a"}, "d is not listed as a silence"),
        ({"nonsilence_phones.txt": "a a1 b d e i t sil\n"}, {"oov": "a"}, "sil is listed twice"),
        ({"nonsilence_phones.txt": "a a1 b d e i t t_B\n"}, {"oov": "a"}, "t_B is one of _B"),
        ({"extra_questions.txt": "q\n"}, {"oov": "a"}, "the phone q is asked about"),
        ({"lexiconp_silprob.txt": ""}, {"oov": "a"}, "depend on the word are not supported"),
        ({"silence_phones.txt": ""}, {"oov": "a"}, "silence_phones.txt: holds no phone"),
    ],
)
def test_a_faulty_dictionary_is_refused(
    changed: dict[str, str], options: dict, said: str, tmp_path: Path
) -> None:
    write_files(tmp_path / "dict", {**DICT, **changed})
    with pytest.raises(InputError, match=said):
        write_lang(tmp_path / "dict", tmp_path / "lang", LangOptions(**options))
    assert not (tmp_path / "lang").exists()


@pytest.mark.parametrize(("spoken", "silent"), [(3, 5), (3, 3), (2, 1), (1, 7)])
def test_topologies_are_read_as_written(spoken: int, silent: int, tmp_path: Path) -> None:
    topology = build_topology([3, 4, 5], [1, 2], spoken, silent)
    write_topology(topology, tmp_path / "topo")
    found = read_topology(tmp_path / "topo")
    assert [*found] == [*topology] == [3, 4, 5, 1, 2]
    assert len(found[3]) == spoken + 1
    assert len(found[1]) == silent + 1
    for phone, states in topology.items():
        for one, other in zip(states, found[phone], strict=True):
            assert (one.forward_class, one.self_loop_class) == (
                other.forward_class,
                other.self_loop_class,
            )
            assert [target for target, _ in one.transitions] == [t for t, _ in other.transitions]
            shares = [share for _, share in other.transitions]
            assert shares == pytest.approx([share for _, share in one.transitions])
            assert sum(shares) == pytest.approx(1.0 if shares else 0.0)
