"""Decision trees: written back byte for byte, and in agreement with the alignments."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.ark import iter_int_vectors
from bayes_asr.kaldi_io.context_dependency import Leaf, Split, Table, Tree, build_monophone_tree
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.tree import read_tree, write_tree

SMALL = Tree(3, 1, Split(1, frozenset({1, 4}), Leaf(0), Table(-1, (None, Leaf(1), Leaf(2)))))
SMALL_TEXT = """ContextDependency 3 1 ToPdf SE 1 [ 1 4 ]
{ CE 0 TE -1 3 ( NULL CE 1 CE 2 )
}
EndContextDependency """


@pytest.mark.parametrize("corpus", ["timit_sample", "an4"])
@pytest.mark.parametrize("system", ["mono_ali", "tri3_ali"])
def test_writing_gives_kaldis_bytes(
    kaldi_corpus: Callable[[str], Path], corpus: str, system: str, tmp_path: Path
) -> None:
    path = kaldi_corpus(corpus) / "exp" / system / "tree"
    write_tree(read_tree(path), tmp_path / "tree")
    assert (tmp_path / "tree").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("corpus", ["timit_sample", "an4"])
def test_the_tree_gives_the_pdfs_that_kaldi_aligned(
    kaldi_corpus: Callable[[str], Path], corpus: str
) -> None:
    folder = kaldi_corpus(corpus) / "exp" / "tri3_ali"
    tree, model = read_tree(folder / "tree"), read_transition_model(folder / "final.mdl")
    assert (tree.width, tree.center) == (3, 1)
    checked = 0
    for _, tids in list(iter_int_vectors(folder / "ali.1.gz"))[:10]:
        frames = list(zip(model.phone[tids], model.hmm_state[tids], model.pdf[tids], strict=True))
        starts = [
            i
            for i, frame in enumerate(frames)
            if i == 0 or (frame[1] == 0 != frames[i - 1][1]) or frame[0] != frames[i - 1][0]
        ]
        phones = [0, *(int(frames[i][0]) for i in starts), 0]
        for number, start in enumerate(starts):
            end = starts[number + 1] if number + 1 < len(starts) else len(frames)
            for _, state, pdf in frames[start:end]:
                assert tree.pdf(phones[number : number + 3], int(state)) == pdf
                checked += 1
    assert checked > 1000


def test_kaldis_monophone_tree_is_ours(kaldi_corpus: Callable[[str], Path], tmp_path: Path) -> None:
    path = kaldi_corpus("timit_sample") / "exp" / "mono_ali" / "tree"
    ours = build_monophone_tree({phone: range(3 * phone - 3, 3 * phone) for phone in range(1, 49)})
    write_tree(ours, tmp_path / "tree")
    assert (tmp_path / "tree").read_bytes() == path.read_bytes()


def test_text_and_binary(tmp_path: Path) -> None:
    (tmp_path / "text").write_text(SMALL_TEXT)
    assert read_tree(tmp_path / "text") == SMALL
    write_tree(SMALL, tmp_path / "binary")
    assert read_tree(tmp_path / "binary") == SMALL


def test_answers() -> None:
    assert SMALL.pdf([9, 4, 9], 2) == 0
    assert SMALL.pdf([9, 2, 9], 2) == 2
    for pdf_class in (0, 3):
        with pytest.raises(InputError, match=f"no pdf of class {pdf_class}"):
            SMALL.pdf([9, 2, 9], pdf_class)
    with pytest.raises(ValueError, match="2 phones for a tree over 3"):
        SMALL.pdf([9, 2], 0)


def test_every_truncation_is_an_error(tmp_path: Path) -> None:
    write_tree(SMALL, tmp_path / "tree")
    for content in ((tmp_path / "tree").read_bytes()[:-1], SMALL_TEXT[:-2].encode()):
        for end in range(len(content)):
            (tmp_path / "cut").write_bytes(content[:end])
            with pytest.raises(InputError, match="cut"):
                read_tree(tmp_path / "cut")


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("ContextDependency 3 1", "ContextDependency 3 3", "at 3 in a window of 3"),
        ("SE 1", "SE 3", "position 3 of 3"),
        ("SE 1", "XE 1", "found 'XE'"),
        ("CE 0 TE", "NULL TE", "without an answer"),
        ("TE -1 3", "TE -1 2000000000", "found '\\)'"),
        ("TE -1 3", "TE -1 -3", "count -3"),
        ("CE 1", "CE -1", "count -1"),
        ("CE 0", "SE 1 [ 2 ] { " * 5000, "201 questions deep"),
    ],
)
def test_damage_is_named(tmp_path: Path, old: str, new: str, part: str) -> None:
    (tmp_path / "tree").write_text(SMALL_TEXT.replace(old, new, 1))
    with pytest.raises(InputError, match=part) as error:
        read_tree(tmp_path / "tree")
    assert "\n" not in str(error.value)
