"""Questions: Kaldi's bytes, text, and every damage named."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.context_dependency import PDF_CLASS
from bayes_asr.kaldi_io.qst import Questions, read_questions, write_questions
from tests.support.mixtures import golden_gmms

SMALL: Questions = {PDF_CLASS: ((0,),), 0: ((1, 2), (3,))}
SMALL_TEXT = """<Questions> <Key> -1 <QuestionsForKey> 1 [ 0 ]
<RefineClustersOptions> 0 2 </RefineClustersOptions> </QuestionsForKey> <Key> 0
<QuestionsForKey> 2 [ 1 2 ]
[ 3 ]
<RefineClustersOptions> 0 2 </RefineClustersOptions> </QuestionsForKey> </Questions> """


@pytest.mark.parametrize("system", ["tri1", "tri2", "tri3"])
def test_writing_gives_kaldis_bytes(system: str, tmp_path: Path) -> None:
    path = golden_gmms().root / system / "questions.qst"
    write_questions(read_questions(path), tmp_path / "qst")
    assert (tmp_path / "qst").read_bytes() == path.read_bytes()


def test_text_and_binary(tmp_path: Path) -> None:
    (tmp_path / "text").write_text(SMALL_TEXT)
    assert read_questions(tmp_path / "text") == SMALL
    write_questions(SMALL, tmp_path / "binary")
    assert read_questions(tmp_path / "binary") == SMALL


def test_every_truncation_is_an_error(tmp_path: Path) -> None:
    write_questions(SMALL, tmp_path / "binary")
    for content in ((tmp_path / "binary").read_bytes()[:-1], SMALL_TEXT[:-2].encode()):
        for end in range(len(content)):
            (tmp_path / "cut").write_bytes(content[:end])
            with pytest.raises(InputError, match="cut"):
                read_questions(tmp_path / "cut")


def test_refined_questions_are_refused(tmp_path: Path) -> None:
    (tmp_path / "qst").write_text(SMALL_TEXT.replace("> 0 2", "> 5 2", 1))
    with pytest.raises(InputError, match="refined 5 times"):
        read_questions(tmp_path / "qst")


@given(content=st.binary(max_size=200), position=st.integers(0, 150))
def test_damage_is_an_input_error(
    content: bytes, position: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("qst") / "qst"
    write_questions(SMALL, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:position] + content + whole[position + len(content) :])
    with suppress(InputError):  # and nothing else
        read_questions(path)
