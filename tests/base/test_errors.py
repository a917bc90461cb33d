"""Words of messages."""

import pytest

from bayes_asr.base.errors import count_of


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (0, ["utterance"], "0 utterances"),
        (1, ["utterance"], "1 utterance"),
        (2, ["utterance"], "2 utterances"),
        (1, ["word is", "words are"], "1 word is"),
        (21, ["word is", "words are"], "21 words are"),
    ],
)
def test_one_thing_is_in_the_singular(number: int, words: list[str], said: str) -> None:
    assert count_of(number, *words) == said
