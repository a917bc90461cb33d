"""bayes-asr pronunciation: files and page of a set, and Kaldi's formula on what forward writes."""

import json
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.cli import main
from bayes_asr.data.targets.alignments import Alignments
from bayes_asr.decode.forward.log_likelihoods import load
from bayes_asr.kaldi_io.ark import iter_matrices
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.text import read_text
from tests.decode.align.test_data_dir import corpus, run
from tests.decode.align.test_goodness import kaldis_gop

__all__ = ["corpus", "run"]  # the fixtures


@pytest.fixture(scope="module")
def scored(corpus: Path, run: Path) -> Path:
    out = corpus / "scored"
    lang = f"--lang={corpus / 'dict'}"
    assert main(["pronunciation", str(run), "--on=dev", lang, f"--out={out}"]) == 0
    return out


@pytest.mark.slow
def test_it_is_kaldis_formula_on_the_runs_alignment(corpus: Path, run: Path, scored: Path) -> None:
    lang = f"--lang={corpus / 'dict'}"
    assert main(["align", str(run), "--on=dev", lang, f"--out={corpus / 'dev_ali'}"]) == 0
    assert main(["forward", str(run), "--on=dev", f"--out={corpus / 'dev_forward'}"]) == 0
    alignments = Alignments(corpus / "dev_ali")
    phones, tids = read_symbols(corpus / "dev_ali" / "phones.txt"), dict(alignments.items())
    priors = load(run).log_priors.numpy()
    lines = [line.split() for line in (scored / "gop.txt").read_text().splitlines()]
    features = dict(iter_matrices(scored / "features.scp"))
    for utt, loglikes in iter_matrices(corpus / "dev_forward" / "loglikes.scp"):
        rows = [line for line in lines if line[0] == utt]
        posteriors = loglikes.astype(float) + priors
        expected = kaldis_gop(alignments.model, posteriors, tids[utt], skipped=phones["sil"])
        assert [int(row[1]) for row in rows] == list(range(len(rows)))
        assert [phones[row[2]] for row in rows] == expected[0]
        np.testing.assert_allclose([float(row[3]) for row in rows], expected[1], atol=1e-3)
        spoken = [phones["a"], phones["b"], phones["c"]]
        columns = [*(1 + n for n in spoken), *(1 + len(phones) + n for n in spoken)]
        np.testing.assert_allclose(features[utt], expected[2][:, columns], atol=1e-3)


def test_words_and_utterances_have_the_means_of_their_phones(corpus: Path, scored: Path) -> None:
    utterances = json.loads((scored / "gop.json").read_text())
    text = read_text(corpus / "data" / "dev" / "text")
    assert {u["utterance"]: [w["word"] for w in u["words"]] for u in utterances} == text
    for utterance in utterances:
        phones = [phone for word in utterance["words"] for phone in word["phones"]]
        for measure in ("gop", "log_posterior", "loop_ratio"):
            for scored_part, members in (
                (utterance, phones),
                *((word, word["phones"]) for word in utterance["words"]),
            ):
                mean = np.mean([phone[measure] for phone in members])
                assert scored_part[measure] == pytest.approx(mean, abs=2e-4)
        for word in utterance["words"]:
            assert word["start"] == word["phones"][0]["start"]
            assert word["end"] == word["phones"][-1]["end"]
        assert all(phone["gop"] <= 0 for phone in phones)
        assert all(
            (phone["gop"] == 0) == (phone["phone"] == phone["likeliest"]) for phone in phones
        )


@pytest.mark.slow
def test_a_wrong_word_has_the_lowest_goodness(
    corpus: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = read_text(corpus / "data" / "dev" / "text")
    utt, words = next(iter(text.items()))
    wrong = {"one": "six", "two": "six", "six": "two"}[words[1]]
    text[utt] = [words[0], wrong, words[2]]
    (tmp_path / "text").write_text("".join(f"{u} {' '.join(w)}\n" for u, w in text.items()))
    options = [f"--lang={corpus / 'dict'}", f"--text={tmp_path / 'text'}", f"--out={tmp_path}"]
    assert main(["pronunciation", str(run), "--on=dev", *options, "--json", "--nj=2"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert min(printed, key=lambda u: u["gop"])["utterance"] == utt
    (described,) = (
        u for u in json.loads((tmp_path / "gop.json").read_text()) if u["utterance"] == utt
    )
    assert min(described["words"], key=lambda word: word["gop"])["word"] == wrong


def test_what_cannot_be_aligned_is_named(
    corpus: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = read_text(corpus / "data" / "dev" / "text")
    utts = [*text]
    lines = [f"{utts[0]} zebra", f"{utts[1]} {'six ' * 90}", f"{utts[2]} one"]
    (tmp_path / "text").write_text("\n".join(lines) + "\n")
    out = tmp_path / "out"
    options = [f"--lang={corpus / 'dict'}", f"--text={tmp_path / 'text'}", f"--out={out}"]
    assert main(["pronunciation", str(run), "--on=dev", *options]) == 1
    complaint = capsys.readouterr().err
    assert f"{utts[0]}: the word zebra is not in the lexicon" in complaint
    assert f"{utts[1]}: no path of its 90 words" in complaint
    assert f"{utts[3]}: there is no transcript" in complaint
    assert "for 3 of 4 utterances" in complaint
    assert not out.exists() or not [*out.iterdir()]
