"""NIST mapping rules against lines that rfilter1 and csrfilt printed, and by their definition."""

from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.score.glm import ENGLISH, filter_words, read_glm

HEADER = ";; rules\n* format = 'NIST1'\n* case_sensitive = 'F'\n"


def words(tmp_path: Path, rules: str, text: str, purpose: str = "ref") -> str:
    (tmp_path / "glm").write_text(HEADER + rules)
    return " ".join(filter_words(text, read_glm(tmp_path / "glm", purpose)))


@pytest.mark.parametrize(
    ("rules", "text", "expected"),
    [
        ("um => / [ ] __ [ ]", "UM hum um", "hum"),
        ("okay => o. k. / [ ] __ [ ]", "OKAY okays", "o. k. okays"),
        ("donut => doughnut ;; a part of a word too", "donuts", "doughnuts"),
        ("down syndrome => down's syndrome", "down syndrome", "down's syndrome"),
        (
            "falkner => faulkner / [william ] __",
            "falkner william falkner",
            "falkner william faulkner",
        ),
        ("t. => tee / __ [ shirt]", "T. V. T. SHIRT", "t. v. tee shirt"),
        ("[ain't] => [{are not / have not}] / [ ] __ [ ]", "AIN'T", "{ are not / have not }"),
        ("[b's] => [{b's / b is}]", "b's", "{ b's / b is }"),
        ("[b's] => [{b's / b is}", "b's", "{ b's / b is }"),
        ("b's => {b's/b is} / [ ] __ [ ]", "(b's)", "{ (b's) / (b) (is) }"),
        ("um => / [ ] __ [ ]", "a (um) b", "a b"),
        ("a => b / [ ] __ [ ]\nb => c / [ ] __ [ ]", "a b", "b c"),
        ("a => b\na => c", "a", "b"),
        ("x => y / [ ] __ [ ]", "x x x", "y y y"),
    ],
)
def test_rules(tmp_path: Path, rules: str, text: str, expected: str) -> None:
    assert words(tmp_path, rules + "\n", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("KICK-OFF up-to-date", "kick off up to date"),
        ("hel- -lo - a--b", "hel- -lo - a -b"),
        ("(a b c) d", "(a) (b) (c) d"),
        ("(kick-off)", "(kick) (off)"),
        ("(hel-) x/y", "(hel-) x/y"),
    ],
)
def test_hyphens_and_parentheses_without_rules(text: str, expected: str) -> None:
    assert " ".join(filter_words(text, None)) == expected


def test_case_counts_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    """csrfilt writes the words in capitals first, so a lower-case rule cannot match."""
    (tmp_path / "glm").write_text(";; rules\n[FAKE] => %HESITATION\nokay => o. k.\n")
    assert filter_words("fake okay", read_glm(tmp_path / "glm", "ref")) == ["%hesitation", "okay"]


def test_rules_for_one_side(tmp_path: Path) -> None:
    only = ';; INPUT_DEPENDENT_APPLICATION = "{}"\n'
    rules = only.format("ctm") + "a => b\n" + only.format("ref") + "c => d\n"
    assert words(tmp_path, rules, "a c", "hyp") == "b c"
    assert words(tmp_path, rules, "a c", "ref") == "a d"


def test_golden_reference_is_filtered_as_csrfilt_does(golden: Path) -> None:
    ami = golden / "ami"
    rules = read_glm(ami / "english.glm", "ref")
    pairs = zip(*((ami / f).read_text().splitlines() for f in ("stm", "stm.filt")), strict=True)
    for line, filtered in pairs:
        expected = filtered.lower().split()[5:]
        assert filter_words(line.split(maxsplit=5)[5], rules) == expected


def test_own_rules_agree_with_kaldis_on_the_real_meetings(golden: Path) -> None:
    """Every backchannel, hesitation and contraction of pronouns that the meetings have."""
    own, kaldi = (read_glm(p, "ref") for p in (ENGLISH, golden / "ami" / "english.glm"))
    spoken = str.split("MM-HMM UH-HUH UM UH OKAY IT'S I'M WE'RE DON'T CAN'T THAT'S I'D WE'LL GONNA")
    assert [filter_words(w, own) for w in spoken] == [filter_words(w, kaldi) for w in spoken]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("a = b\n", "line 4: not a rule `a => b / [ ] __ [ ]`: a = b"),
        ("=> b\n", "line 4: not a rule"),
        ("* max_nrules = 12\n", "line 4: a setting without a quoted value"),
    ],
)
def test_bad_rules_are_named(tmp_path: Path, rules: str, message: str) -> None:
    with pytest.raises(InputError, match=r"glm, line 4: ") as caught:
        words(tmp_path, rules, "a")
    assert message in str(caught.value)


@pytest.mark.parametrize("content", ["", "a => b / [ ] __ [ ]\n", ";;\ra => b / [ ] __ [ ]\r"])
def test_a_rule_in_the_place_of_the_mark_of_comments_is_not_lost(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / "glm").write_text(content, newline="")
    with pytest.raises(InputError, match="line 1: has the mark of comments alone, such as ;;"):
        read_glm(tmp_path / "glm", "hyp")


def test_missing_file_says_how_to_name_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory; name a GLM file, or english"):
        read_glm(tmp_path / "glm", "ref")
