"""local/gmm.sh: what it asks of bayes-asr, with a stub for it."""

import os
import shutil
from pathlib import Path

import pytest

from tests.support.gmm_stub import GmmExperiment
from tests.support.places import ROOT


@pytest.fixture
def experiment(tmp_path: Path) -> GmmExperiment:
    return GmmExperiment(tmp_path)


def decoded(model: str, first: str = "dev", second: str = "test", more: str = "") -> list[str]:
    """The calls that make a graph, decode two sets and score them."""
    return [
        f"graph --lang data/lang --lm data/local/lm.arpa --model exp/{model}/final.mdl"
        f" --out exp/{model}/graph",
        *(
            f"gmm decode data/{name} exp/{model}/graph exp/{model} exp/{model}/decode_{name}{more}"
            " --nj 2"
            for name in (first, second)
        ),
        f"gmm score gmm/{model} checkout/recipes/RECIPE/config.yaml --set=data.dir='out'"
        f" --set=data.dev.features=[data/{first}] --set=data.test.features=[data/{second}] --nj 2",
    ]


TIMIT = """
gmm lang data/local/dict data/lang --oov sil --sil-prob 0.0 --position-dependent-phones false \
--num-sil-states 3
features data/train
features data/dev
features data/test
gmm mono data/train data/lang exp/mono --nj 2
gmm align data/train data/lang exp/mono exp/mono_ali --boost-silence 1.25 --nj 2
gmm deltas data/train data/lang exp/mono_ali exp/tri1 --leaves 2500 --gaussians 15000 --nj 2
gmm align data/train data/lang exp/tri1 exp/tri1_ali --nj 2
gmm lda-mllt data/train data/lang exp/tri1_ali exp/tri2 --dim 50 --left-context 3 \
--right-context 3 --leaves 2500 --gaussians 15000 --nj 2
gmm align data/train data/lang exp/tri2 exp/tri2_ali --nj 2
gmm sat data/train data/lang exp/tri2_ali exp/tri3 --leaves 2500 --gaussians 15000 --nj 2
DECODED
gmm align data/train data/lang exp/tri3 exp/tri3_ali --adapt --rescue true --nj 2
gmm align data/dev data/lang exp/tri3 exp/tri3_ali_dev --adapt --rescue true --nj 2
gmm align data/test data/lang exp/tri3 exp/tri3_ali_test --adapt --rescue true --nj 2
gmm features data/train exp/tri3 exp/tri3_ali data-fmllr-tri3/train
gmm features data/dev exp/tri3 exp/tri3/decode_dev data-fmllr-tri3/dev
gmm features data/test exp/tri3 exp/tri3/decode_test data-fmllr-tri3/test
"""
MODELS = ("mono", "tri1", "tri2", "tri3")


@pytest.mark.slow
def test_timit_is_trained_as_in_kaldis_recipe_and_once(experiment: GmmExperiment) -> None:
    """Order, options and numbers are those that local/kaldi_gmm.sh gives; four models decode."""
    said = experiment.run("--dim", "50", "--nj", "2")
    assert said.endswith("status 0"), said
    tries = [call for model in MODELS for call in decoded(model, more=" --wip 0.0")]
    expected = TIMIT.strip().replace("DECODED", "\n".join(tries)).replace("RECIPE", "timit")
    assert experiment.calls() == expected.splitlines()
    for name in ("dev", "test"):
        assert (experiment.out / "gmm/mono" / f"decode_{name}").samefile(
            experiment.out / "exp/mono" / f"decode_{name}"
        )
    again = experiment.run("--dim", "50", "--nj", "3")
    assert again.endswith("status 0"), again
    assert experiment.calls() == []
    assert again.count(": complete") == 33


@pytest.fixture
def mboshi(experiment: GmmExperiment) -> GmmExperiment:
    """With words to align, and a second task."""
    experiment.add_words()
    for name in ("mboshi", "mboshi_words"):
        recipe = experiment.folder / "checkout/recipes" / name
        recipe.mkdir(exist_ok=True)
        shutil.copy(ROOT / "recipes" / name / "config.yaml", recipe)
    return experiment


def words_of(folder: Path) -> str:
    return (folder / "text_words").read_text()


@pytest.mark.slow
def test_words_are_aligned_where_phones_are_recognised(mboshi: GmmExperiment) -> None:
    """One dictionary aligns a view with `text_words`; two become graphs of each model."""
    said = mboshi.run("--nj", "2", recipe="mboshi")
    assert said.endswith("status 0"), said
    calls = mboshi.calls()
    options = "--oov <UNK> --position-dependent-phones false"
    assert calls[:7] == [
        f"gmm lang data/local/dict_align data/lang {options}",
        f"gmm lang data/local/dict data/lang_test {options}",
        f"gmm lang data/local/dict_words data/lang_test_words {options}",
        *(f"features data/{name}" for name in ("train", "dev", "test")),
        "gmm mono data-align/train data/lang exp/mono --nj 2",
    ]
    assert [call for call in calls if call.startswith("graph")] == [
        f"graph --lang data/lang_test{task} --lm data/local/lm{task}.arpa"
        f" --model exp/{model}/final.mdl --out exp/{model}/graph{task}"
        for model in MODELS
        for task in ("", "_words")
    ]
    scored = [call.split()[2] for call in calls if call.startswith("gmm score")]
    assert scored == [f"gmm/{model}" for model in MODELS]
    assert not [call for call in calls if "decode_words" in call]
    assert [call for call in calls if call.startswith("gmm align") and "exp/tri3 " in call] == [
        f"gmm align data-align/{name} data/lang exp/tri3 exp/tri3_ali{end} --adapt --rescue true"
        " --nj 2"
        for name, end in (("train", ""), ("dev", "_dev"), ("test", "_test"))
    ]
    assert calls[-1] == "gmm features data/test exp/tri3 exp/tri3/decode_test data-fmllr-tri3/test"
    for name in ("train", "dev", "test"):
        data, view = (mboshi.out / folder / name for folder in ("data", "data-align"))
        assert (view / "text").read_text() == words_of(data) != (data / "text").read_text()
        assert (view / "feats.scp").samefile(data / "feats.scp")
    again = mboshi.run("--nj", "2", recipe="mboshi")
    assert again.endswith("status 0"), again
    assert mboshi.calls() == []


@pytest.mark.slow
def test_words_are_decoded_and_scored_where_the_configuration_names_their_graph(
    mboshi: GmmExperiment,
) -> None:
    """The models are those of the phones, and so are the transforms."""
    assert mboshi.run("--nj", "2", recipe="mboshi").endswith("status 0")
    mboshi.calls()
    config = "checkout/recipes/mboshi_words/config.yaml"
    said = mboshi.run("--nj", "2", "--config", config, recipe="mboshi")
    assert said.endswith("status 0"), said
    search = "--wip 0.0 0.5 1.0 --beam 12 --lattice-beam 6 --max-active 5000 --nj 2"
    assert mboshi.calls() == [
        call
        for model in MODELS
        for call in (
            *(
                f"gmm decode data-align/{name} exp/{model}/graph_words exp/{model}"
                f" exp/{model}/decode_words_{name} {search}"
                for name in ("dev", "test")
            ),
            f"gmm score gmm/{model}_words {config} --set=data.dir='out'"
            " --set=data.dev.features=[data/dev] --set=data.test.features=[data/test] --nj 2",
        )
    ]
    link = mboshi.out / "gmm/tri3_words/decode_test"
    assert link.samefile(mboshi.out / "exp/tri3/decode_words_test")


@pytest.mark.slow
def test_phones_beside_words_are_decoded_for_the_transforms_alone(mboshi: GmmExperiment) -> None:
    config = "checkout/recipes/mboshi_words/config.yaml"
    said = mboshi.run("--nj", "2", "--config", config, recipe="mboshi")
    assert said.endswith("status 0"), said
    calls = mboshi.calls()
    graphs = [call.split()[3] for call in calls if call.startswith("gmm decode")]
    words = [f"exp/{model}/graph_words" for model in MODELS for _ in ("dev", "test")]
    assert sorted(graphs) == sorted([*words, "exp/tri3/graph", "exp/tri3/graph"])
    assert calls[-1] == "gmm features data/test exp/tri3 exp/tri3/decode_test data-fmllr-tri3/test"


@pytest.mark.slow
def test_ami_adds_its_subset_beams_and_eval_set(experiment: GmmExperiment) -> None:
    settings = experiment.folder / "checkout/recipes/ami/kaldi.sh"
    settings.write_text(settings.read_text().replace("=15000", "=2"))
    jobs = {"train_cmd": "queue.pl --mem 2G", "decode_cmd": "slurm.pl"}
    own = experiment.folder / "mine.yaml"
    own.touch()
    said = experiment.run("--nj", "2", "--config", "mine.yaml", recipe="ami", **jobs)
    assert said.endswith("status 0"), said
    calls = experiment.calls()
    assert calls[:2] == [
        "gmm lang data/local/dict data/lang --oov <unk>",
        "features data/train --cmd queue.pl --mem 2G --nj 2",
    ]
    more = " --wip 0.0 0.5 1.0 --beam 11.0 --first-beam 8.0"
    expected = [
        "gmm mono data/train_mono data/lang exp/mono --nj 2 --cmd queue.pl --mem 2G",
        "gmm sat data/train data/lang exp/tri2_ali exp/tri3 --leaves 5000 --gaussians 80000 --nj 2"
        " --cmd queue.pl --mem 2G",
        *decoded("tri3", "dev", "eval", more),
    ]
    expected = [
        call.replace("checkout/recipes/RECIPE/config.yaml", "mine.yaml")
        + (" --cmd slurm.pl" if call.startswith("gmm decode") else "")
        for call in expected
    ]
    assert [call for call in calls if call in expected] == expected
    assert not [call for call in calls if "data/test" in call.replace("data/test.features", "")]
    chosen = (experiment.out / "data/train_mono/text").read_text()
    assert chosen == "train0 train0\ntrain2 train2\n"


@pytest.mark.slow
def test_one_limit_of_what_has_no_frame_reaches_the_steps(experiment: GmmExperiment) -> None:
    said = experiment.run("--nj", "2", "--max-skipped", "0.2")
    assert said.endswith("status 0"), said
    calls = experiment.calls()
    assert "features data/dev --max-skipped 0.2" in calls
    decoding = [call for call in calls if call.startswith("gmm decode")]
    assert len(decoding) == 8
    assert all(" --max-skipped 0.2 " in call for call in decoding)
    scoring = [call for call in calls if call.startswith("gmm score")]
    assert len(scoring) == 4
    assert all(" --set=data.max_skipped=0.2 " in call for call in scoring)


@pytest.mark.slow
def test_the_subset_of_monophones_needs_no_more_than_has_features(
    experiment: GmmExperiment,
) -> None:
    """Of three that are spoken two are wanted, and one has features."""
    settings = experiment.folder / "checkout/recipes/ami/kaldi.sh"
    settings.write_text(settings.read_text().replace("=15000", "=2"))
    said = experiment.run("--nj", "2", "--stop-stage", "1", recipe="ami")
    assert said.endswith("status 0"), said
    feats = experiment.out / "data/train/feats.scp"
    feats.write_text(feats.read_text().splitlines(keepends=True)[0])
    said = experiment.run("--nj", "2", "--stage", "2", "--stop-stage", "2", recipe="ami")
    assert said.endswith("status 0"), said
    assert (experiment.out / "data/train_mono/text").read_text() == "train0 train0\n"


@pytest.mark.slow
def test_prepared_cepstra_are_taken_as_they_are(experiment: GmmExperiment) -> None:
    for name in ("train", "dev", "test"):
        data = experiment.out / "data" / name
        (data / "wav.scp").rename(data / "feats.scp")
    said = experiment.run("--nj", "2", recipe="an4")
    assert said.endswith("status 0"), said
    calls = experiment.calls()
    assert [call.split()[:2] for call in calls[:2]] == [["gmm", "lang"], ["gmm", "mono"]]
    assert not [call for call in calls if call.startswith("features")]


@pytest.mark.slow
def test_failing_step_is_named_with_its_log_and_goes_on_from_there(
    experiment: GmmExperiment,
) -> None:
    """What the verb has written stays, so that it may go on; --force begins anew."""
    said = experiment.run("--nj", "2", FAILING="gmm deltas*")
    log = experiment.out / "log/gmm_tri1.log"
    assert f"Stage 3 (gmm_tri1) failed with status 4; its log is {log}\nstatus 4" in said
    assert experiment.calls()[-1].startswith("gmm deltas")
    begun = experiment.out / "exp/tri1/gmm.json"
    begun.parent.mkdir()
    begun.touch()
    experiment.run("--nj", "2", "--stop-stage", "3")
    assert [call.split()[1] for call in experiment.calls()] == ["deltas"]
    assert begun.exists()
    experiment.run("--nj", "2", "--stage", "3", "--stop-stage", "3", "--force")
    assert [call.split()[1] for call in experiment.calls()] == ["align", "deltas"]
    assert not begun.exists()


def test_options_that_we_lack_reach_the_verb_which_refuses_them(experiment: GmmExperiment) -> None:
    with (experiment.folder / "checkout/recipes/timit/kaldi.sh").open("a") as settings:
        settings.write("mono=(--totgauss 500 --careful true)\ntri2_ali=(steps/align_si.sh)\n")
    experiment.run("--nj", "2", "--stop-stage", "2")
    called = "gmm mono data/train data/lang exp/mono --gaussians 500 --careful true --nj 2"
    assert experiment.calls()[-1] == called


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dim", "92"], "--dim 92: LDA has 7 frames of 13 cepstra"),
        (["--recipe", "none"], "recipes/none/kaldi.sh"),
        (["--out", "nowhere"], "there is no nowhere/data"),
    ],
)
def test_what_is_missing_is_said(
    experiment: GmmExperiment, options: list[str], message: str
) -> None:
    said = experiment.run(*options)
    assert message in said
    assert said.endswith("status 2")
    assert not (experiment.out / "exp").exists()
    assert not os.path.exists(experiment.calls_file)


def test_a_setting_without_its_value_is_refused(experiment: GmmExperiment) -> None:
    with (experiment.folder / "checkout/recipes/timit/kaldi.sh").open("a") as settings:
        settings.write("tri1=(5000)\n")
    said = experiment.run("--nj", "2", "--stop-stage", "3")
    assert "recipes/timit/kaldi.sh" in said
    assert said.endswith("status 1")
    assert [call.split()[1] for call in experiment.calls()][-2:] == ["mono", "align"]
