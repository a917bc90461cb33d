"""Words that a lexicon of letters lacks: spelled as it spells its own, or refused by name."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.decode.align.pronouncer import Pronouncer
from bayes_asr.decode.align.spelling import learn_graphemes, spell, spell_words
from bayes_asr.decode.graph.lexicon import Lang, Pronunciation
from bayes_asr.kaldi_io.context_dependency import build_monophone_tree
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.marks import split_letters
from bayes_asr.recipe.folder.spelling import spell_by_letters
from tests.decode.align.test_timing_aligner import toy

PHONES = {"<eps>": 0, "sil": 1, "a": 2, "b": 3, "e\u0301": 4}


def letters(*words: str, silence: str = "<sil>") -> Pronouncer:
    """A lexicon of these words by their letters, and one for silence."""
    lexicon = [Pronunciation(word, 1.0, tuple(split_letters(word))) for word in words]
    lexicon.append(Pronunciation(silence, 1.0, ("sil",)))
    numbers = [*PHONES.values()][1:]
    tree = build_monophone_tree({n: range(3 * (n - 1), 3 * n) for n in numbers})
    phones = {(p if p != "e\u0301" else "é"): n for p, n in PHONES.items()}
    return Pronouncer(Lang(lexicon, "sil", 0.5), phones, build_monophone_model(numbers, 3), tree)


def test_words_are_spelled_in_capitals_and_with_marks() -> None:
    speech = spell_words(letters("ab", "bé"), ["ab", "E\u0301B", "b'a"])
    assert speech.pronounce("E\u0301B") == [(0.0, [4, 3])]
    assert speech.pronounce("b'a") == [(0.0, [3, 2])]
    assert speech.pronounce("ab") == [(0.0, [2, 3])]


def test_what_is_known_changes_nothing() -> None:
    speech = letters("ab", "ba")
    assert spell_words(speech, ["ab", "ab"]) is speech


def test_the_word_for_unknown_ones_stands_for_what_cannot_be_spelled(
    messages: Callable[[], str],
) -> None:
    phones = replace(toy(), lang=replace(toy().lang, unknown="ab"))
    assert spell_words(phones, ["zebra"]) is phones
    speech = letters("ab", "ba")
    speech = spell_words(replace(speech, lang=replace(speech.lang, unknown="ab")), ["aab", "ax"])
    assert speech.pronounce("aab") == [(0.0, [2, 2, 3])]
    assert speech.pronounce("ax") == speech.pronounce("ab")
    assert "not in the lexicon, and aligned as ab: zebra\n" in messages()
    assert "not in the lexicon, and aligned as ab: ax\n" in messages()


@pytest.mark.parametrize("word", ["ax", "...", "b5"])
def test_a_word_of_a_letter_that_no_word_has_is_named(word: str) -> None:
    with pytest.raises(InputError, match=rf"lacks {word}, and spells no word with"):
        spell_words(letters("ab", "ba"), ["bb", word])


def test_a_lexicon_of_phones_spells_nothing() -> None:
    assert learn_graphemes(toy().lang) is None
    with pytest.raises(InputError, match=r"lacks zebra, zoo, and is not of letters.*--oov WORD"):
        spell_words(toy(), ["zebra", "b", "zoo"])
    with pytest.raises(InputError) as raised:
        spell_words(toy(), ["ab,", "zoo", "Aa", "b"])
    message = str(raised.value)
    assert "lacks zoo, and" in message
    assert "has 'Aa', 'ab,' in another case" in message
    with pytest.raises(InputError, match=r"^the lexicon has 'AB' in another case"):
        spell_words(toy(), ["AB"])
    names = [Pronunciation(phone, 1.0, (phone,)) for phone in ("aa", "b", "d", "sh")]
    assert learn_graphemes(Lang(names)) is None


def test_letters_are_marked_by_their_places_in_words_as_the_lexicon_marks_them() -> None:
    rows = ["aus a_B u_I s_E", "aa a_B a_E", "u u_S", "<sil> sil_S"]
    lexicon = [Pronunciation(word, 1.0, (*phones,)) for word, *phones in map(str.split, rows)]
    spelled = spell(Lang(lexicon), ["suas", "su", "s"], "")
    assert [" ".join(entry.phones) for entry in spelled] == ["s_B u_I a_I s_E", "s_B u_E", "s_S"]
    assert learn_graphemes(Lang([*lexicon, Pronunciation("as", 1.0, ("a", "s"))])) is None


@given(st.lists(st.text("abcé", min_size=2, max_size=5), min_size=1, unique=True))
def test_letters_are_learnt_from_any_words_of_letters(words: list[str]) -> None:
    lexicon = [Pronunciation(word, 1.0, tuple(word.upper())) for word in words]
    expected = {letter: letter.upper() for word in words for letter in word}
    assert learn_graphemes(Lang(lexicon)) == expected


@pytest.mark.parametrize(
    ("word", "letters"),
    [
        ("Ma˥ŋ˩", ["m", "a˥", "ŋ˩"]),
        ("ma˧˥", ["m", "a˧˥"]),
        ("꜀ka꜔", ["k꜀", "a꜔"]),
        ("ńa\u0301", ["ń", "á"]),
        ("t͡ʃa", ["t͡", "ʃ", "a"]),
        ("ka'a", ["k", "a", "a"]),
        ("kaʼa", ["k", "a", "ʼ", "a"]),
        ("ǃxa", ["ǃ", "x", "a"]),
    ],
)
def test_tones_and_marks_go_with_their_letters(word: str, letters: list[str]) -> None:
    assert split_letters(word) == letters


def test_signs_that_no_letter_stands_for_are_announced(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the words that differ by them alone; tones, case and ends of sentences are none."""
    words = ["k!a", "ka", "k|a", "ka'a", "kaa", "Kaa,", "ma˥", "ma˩", "don't", "!xoo,", "xoo"]
    spelled = dict(spell_by_letters(words, Path("text")))
    assert spelled["ma˥"] != spelled["ma˩"]
    printed = capsys.readouterr().out
    assert "! in 2 words (k!a, !xoo,), | in 1 word (k|a), ' in 2 words (ka'a, don't)" in printed
    assert "k!a and ka and k|a, ka'a and kaa, !xoo, and xoo are spelled alike" in printed
    spell_by_letters(["ma˥", "Ma˩,", "“ná”", "no!", "می\u200cخواهم"], Path("text"))
    assert not capsys.readouterr().out


def test_letters_of_turkish_capitals_are_those_of_small_ones() -> None:
    assert split_letters("İyi") == split_letters("I\u0307yi") == list("iyi")


def test_the_capital_of_a_dotless_i_is_spelled_as_the_small_letter() -> None:
    spelled = spell_by_letters(["ışık", "Irak", "kilim", "sıra"], Path("text"))
    lang = Lang([Pronunciation(word, 1.0, letters) for word, letters in spelled])
    phone_of = learn_graphemes(lang)
    assert phone_of is not None
    assert phone_of["ı"] == "ı"
    assert [entry.phones for entry in spell(lang, ["IŞIK"], "")] == [("ı", "ş", "ı", "k")]
