"""local/kaldi_gmm.sh: what it asks of Kaldi's scripts, with stubs for them, and of a real Kaldi.

The stubs note down their arguments, refuse inputs that are not there, and make what the real
scripts make.
"""

import fcntl
import os
import shutil
import signal
import struct
import subprocess
import sys
import wave
from pathlib import Path

import pytest

from bayes_asr.kaldi_io.ark import iter_int_vectors, iter_matrices
from bayes_asr.kaldi_io.data_dir import read_data_dir
from bayes_asr.kaldi_io.fst import read_fst
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.text import read_mapping
from tests.support.gmm_experiment import Experiment
from tests.support.places import ROOT
from tests.support.script_stubs import executable

SPHERE = b"NIST_1A\n   1024\n"
STUB = """#!/usr/bin/env bash
name=${0##*/}
printf -v arguments '\\t%s' "$@"; echo "$name$arguments" >>"$CALLS"
[[ -f path.sh ]] || { echo "no path.sh in $PWD"; exit 8; }
if [[ -n $FAILING && "$name $*" == $FAILING ]]; then echo "it went wrong"; exit 4; fi
[[ -n $SILENT && "$name $*" == $SILENT ]] && exit 0
nj=1
for ((i = 1; i < $#; i++)); do [[ ${!i} != --nj ]] || { ((i++)); nj=${!i}; }; done
made=${!#} inputs=("${@:1:$#-1}")
case $name in
    make_fmllr_feats.sh) made=${*: -5:1} inputs=("${@:1:$#-5}" "${@: -4:2}") ;;
    compute_cmvn_stats.sh | fix_data_dir.sh | make_mfcc.sh) inputs=("$made") ;;
    arpa2fst) made= ;;
    run.pl | queue.pl) made= inputs=() ;;
    prepare_lang.sh) inputs=("${*: -4:1}/lexicon.txt") ;;
esac
for input in "${inputs[@]}"; do
    [[ $input != @(exp|data)* || -e $input ]] || { echo "$name: there is no $input"; exit 9; }
done
make() { mkdir -p "$made"; for file; do echo "$RANDOM" >"$made/$file"; done; }
case $name in
    prepare_lang.sh) make L.fst words.txt ;;
    arpa2fst) echo G >"${!#}" ;;
    make_mfcc.sh) make feats.scp ;;
    make_fmllr_feats.sh) make feats.scp; cp "${*: -4:1}"/{feats,wav}.scp "$made" || exit 7 ;;
    compute_cmvn_stats.sh) make cmvn.scp ;;
    subset_data_dir.sh) cp -r "$1" "$3" ;;
    train_*) make final.mdl final.alimdl final.mat tree; echo 1 >"$made/num_jobs" ;;
    align_*) make final.mdl tree trans.1 ali.1.gz; echo "$nj" >"$made/num_jobs" ;;
    decode_fmllr.sh) make trans.1 lat.1.gz ;;
    mkgraph.sh) make HCLG.fst words.txt ;;
    run.pl | queue.pl) while [[ $1 != *.log ]]; do shift; done; shift; "$@" ;;
esac
"""
SCRIPTS = [
    *("steps/make_mfcc.sh", "steps/compute_cmvn_stats.sh", "steps/train_mono.sh"),
    *("steps/train_deltas.sh", "steps/train_lda_mllt.sh", "steps/train_sat.sh"),
    *("steps/align_si.sh", "steps/align_fmllr.sh", "steps/decode_fmllr.sh"),
    *("steps/nnet/make_fmllr_feats.sh", "utils/prepare_lang.sh", "utils/mkgraph.sh"),
    *("utils/subset_data_dir.sh", "utils/fix_data_dir.sh", "utils/parallel/run.pl"),
    "utils/parallel/queue.pl",
]
PROGRAMS = ["featbin/compute-mfcc-feats", "gmmbin/gmm-est-fmllr", "bin/compile-train-graphs"]
PROGRAMS += ["fstbin/fsttablecompose", "latbin/lattice-to-post", "lmbin/arpa2fst"]


class KaldiExperiment(Experiment):
    """An experiment with a KALDI_ROOT of stubs."""

    script = "kaldi_gmm.sh"

    def __init__(self, folder: Path, speakers: int = 3) -> None:
        super().__init__(folder, speakers)
        self.kaldi = folder / "a kaldi"
        for script in SCRIPTS:
            executable(self.kaldi / "egs/wsj/s5" / script, STUB)
        for program in (*(f"src/{name}" for name in PROGRAMS), "tools/openfst/bin/fstcompile"):
            executable(self.kaldi / program, STUB)

    def run(self, *options: str, recipe: str = "timit", **changes: str) -> str:
        return super().run(*options, recipe=recipe, **{"KALDI_ROOT": str(self.kaldi)} | changes)


@pytest.fixture
def experiment(tmp_path: Path) -> KaldiExperiment:
    return KaldiExperiment(tmp_path)


TIMIT = """
prepare_lang.sh --sil-prob 0.0 --position-dependent-phones false --num-sil-states 3 \
data/local/lang_tmp/dict sil data/local/lang_tmp data/lang
arpa2fst --disambig-symbol=#0 --read-symbol-table=data/lang_test/words.txt data/local/lm.arpa \
data/lang_test/G.fst
make_mfcc.sh --cmd run.pl --nj 2 --mfcc-config conf/mfcc.conf data-mfcc/train
compute_cmvn_stats.sh data-mfcc/train
fix_data_dir.sh data-mfcc/train
make_mfcc.sh --cmd run.pl --nj 2 --mfcc-config conf/mfcc.conf data-mfcc/dev
compute_cmvn_stats.sh data-mfcc/dev
fix_data_dir.sh data-mfcc/dev
make_mfcc.sh --cmd run.pl --nj 2 --mfcc-config conf/mfcc.conf data-mfcc/test
compute_cmvn_stats.sh data-mfcc/test
fix_data_dir.sh data-mfcc/test
train_mono.sh --cmd run.pl --nj 2 data-mfcc/train data/lang exp/mono
align_si.sh --cmd run.pl --nj 2 --boost-silence 1.25 data-mfcc/train data/lang exp/mono exp/mono_ali
train_deltas.sh --cmd run.pl 2500 15000 data-mfcc/train data/lang exp/mono_ali exp/tri1
align_si.sh --cmd run.pl --nj 2 data-mfcc/train data/lang exp/tri1 exp/tri1_ali
train_lda_mllt.sh --cmd run.pl --dim 50 --splice-opts --left-context=3 --right-context=3 \
2500 15000 data-mfcc/train data/lang exp/tri1_ali exp/tri2
align_si.sh --cmd run.pl --nj 1 --use-graphs true data-mfcc/train data/lang exp/tri2 exp/tri2_ali
train_sat.sh --cmd run.pl 2500 15000 data-mfcc/train data/lang exp/tri2_ali exp/tri3
run.pl exp/tri3/graph/mkgraph.log utils/mkgraph.sh data/lang_test exp/tri3 exp/tri3/graph
mkgraph.sh data/lang_test exp/tri3 exp/tri3/graph
decode_fmllr.sh --cmd run.pl --nj 2 --skip-scoring true exp/tri3/graph data-mfcc/dev \
exp/tri3/decode_dev
decode_fmllr.sh --cmd run.pl --nj 2 --skip-scoring true exp/tri3/graph data-mfcc/test \
exp/tri3/decode_test
align_fmllr.sh --cmd run.pl --nj 2 data-mfcc/train data/lang exp/tri3 exp/tri3_ali
align_fmllr.sh --cmd run.pl --nj 2 data-mfcc/dev data/lang exp/tri3 exp/tri3_ali_dev
align_fmllr.sh --cmd run.pl --nj 2 data-mfcc/test data/lang exp/tri3 exp/tri3_ali_test
make_fmllr_feats.sh --cmd run.pl --nj 2 --transform-dir exp/tri3_ali data-fmllr-tri3/train \
data-mfcc/train exp/tri3 data-fmllr-tri3/train/log data-fmllr-tri3/train/data
compute_cmvn_stats.sh data-fmllr-tri3/train
make_fmllr_feats.sh --cmd run.pl --nj 2 --transform-dir exp/tri3/decode_dev data-fmllr-tri3/dev \
data-mfcc/dev exp/tri3 data-fmllr-tri3/dev/log data-fmllr-tri3/dev/data
compute_cmvn_stats.sh data-fmllr-tri3/dev
make_fmllr_feats.sh --cmd run.pl --nj 2 --transform-dir exp/tri3/decode_test data-fmllr-tri3/test \
data-mfcc/test exp/tri3 data-fmllr-tri3/test/log data-fmllr-tri3/test/data
compute_cmvn_stats.sh data-fmllr-tri3/test
"""


@pytest.mark.slow
def test_timit_is_trained_as_in_kaldis_recipe_and_once(experiment: KaldiExperiment) -> None:
    """Order, options and numbers of egs/timit/s5/run.sh; then nothing is left to do."""
    said = experiment.run("--dim", "50", "--nj", "2")
    assert said.endswith("status 0"), said
    assert experiment.calls() == TIMIT.strip().splitlines()
    assert (experiment.out / "conf/mfcc.conf").read_text() == "--use-energy=false\n"
    assert not (experiment.out / "data/local/dict/lexiconp.txt").exists()
    again = experiment.run("--dim", "50", "--nj", "3")
    assert again.endswith("status 0"), again
    assert experiment.calls() == []
    assert again.count(": complete") == 20


@pytest.mark.slow
def test_words_are_aligned_where_phones_are_recognised(experiment: KaldiExperiment) -> None:
    """One dictionary aligns `text_words`, two become graphs; features keep both texts."""
    experiment.add_words()
    said = experiment.run("--nj", "2", recipe="mboshi")
    assert said.endswith("status 0"), said
    calls = experiment.calls()
    lang = "prepare_lang.sh --position-dependent-phones false data/local/lang_tmp/dict <UNK>"
    grammar = "arpa2fst --disambig-symbol=#0 --read-symbol-table=data/lang_test"
    assert calls[:5] == [
        f"{lang} data/local/lang_tmp data/lang",
        f"{lang} data/local/lang_tmp data/lang_test",
        f"{grammar}/words.txt data/local/lm.arpa data/lang_test/G.fst",
        f"{lang} data/local/lang_tmp data/lang_test_words",
        f"{grammar}_words/words.txt data/local/lm_words.arpa data/lang_test_words/G.fst",
    ]
    graphs = [call for call in calls if call.startswith("mkgraph.sh")]
    assert graphs == [
        f"mkgraph.sh data/lang_test{task} exp/tri3 exp/tri3/graph{task}" for task in ("", "_words")
    ]
    for name in ("train", "dev", "test"):
        phones, words = (
            (experiment.out / f"data/{name}/text{task}").read_text() for task in ("", "_words")
        )
        assert (experiment.out / f"data-mfcc/{name}/text").read_text() == words
        target = experiment.out / f"data-fmllr-tri3/{name}"
        assert (target / "text").read_text() == phones
        assert (target / "text_words").read_text() == words


@pytest.mark.slow
def test_ami_adds_its_subset_beams_and_eval_set(experiment: KaldiExperiment) -> None:
    """Order, options and numbers of egs/ami/s5b/run.sh, where they differ from TIMIT's."""
    settings = experiment.folder / "checkout/recipes/ami/kaldi.sh"
    settings.write_text(settings.read_text().replace("=15000", "=2"))
    said = experiment.run("--nj", "4", recipe="ami", train_cmd="queue.pl --mem 2G")
    assert said.endswith("status 0"), said
    assert "data-mfcc/eval has 3 speakers: 3 jobs instead of 4" in said
    train = "data-mfcc/train data/lang"
    jobs = "--cmd queue.pl --mem 2G --nj 3"
    expected = [
        "subset_data_dir.sh data-mfcc/train 2 data-mfcc/train_mono",
        f"train_mono.sh {jobs} data-mfcc/train_mono data/lang exp/mono",
        f"align_si.sh {jobs} {train} exp/mono exp/mono_ali",
        f"train_deltas.sh --cmd queue.pl --mem 2G 5000 80000 {train} exp/mono_ali exp/tri1",
        f"align_fmllr.sh {jobs} {train} exp/tri2 exp/tri2_ali",
        f"train_sat.sh --cmd queue.pl --mem 2G 5000 80000 {train} exp/tri2_ali exp/tri3",
        f"decode_fmllr.sh {jobs} --skip-scoring true --beam 11.0 --first-beam 8.0"
        " exp/tri3/graph data-mfcc/eval exp/tri3/decode_eval",
        "compute_cmvn_stats.sh data-fmllr-tri3/eval",
    ]
    calls = experiment.calls()
    assert [call for call in calls if call in expected] == expected
    assert not [call for call in calls if "test" in call.replace("lang_test", "")]


@pytest.mark.slow
def test_prepared_cepstra_are_kaldis_features(experiment: KaldiExperiment) -> None:
    for name in ("train", "dev", "test"):
        (experiment.out / "data" / name / "wav.scp").rename(
            experiment.out / "data" / name / "feats.scp"
        )
    said = experiment.run(recipe="an4", FAILING="compute_cmvn_stats.sh data-fmllr*")
    assert "Stage 8 (kaldi_fmllr_train) failed with status 1" in said
    assert not (experiment.out / "data-fmllr-tri3/train/feats.scp").exists()
    calls = experiment.calls()
    said = experiment.run(recipe="an4")
    assert said.endswith("status 0"), said
    for folder in ("data-mfcc", "data-fmllr-tri3"):
        assert (experiment.out / folder / "train/feats.scp").exists()
        assert not (experiment.out / folder / "train/wav.scp").exists()
    assert [call.split()[0] for call in calls[2:4]] == ["compute_cmvn_stats.sh", "fix_data_dir.sh"]
    assert not [call for call in calls if call.startswith("make_mfcc")]
    features = (experiment.out / "data-mfcc/train/feats.scp").read_text()
    assert features.startswith(f"train0 {experiment.folder}/sound.wav\n")


@pytest.mark.slow
def test_failing_step_is_named_with_its_log_and_repeated(experiment: KaldiExperiment) -> None:
    said = experiment.run(FAILING="train_deltas*")
    log = experiment.out / "log/kaldi_tri1.log"
    assert f"Stage 3 (kaldi_tri1) failed with status 4; its log is {log}\nstatus 4" in said
    assert "it went wrong" in log.read_text()
    assert experiment.calls()[-1].startswith("train_deltas.sh")
    said = experiment.run(SILENT="align_si*tri1_ali")
    missing = f"{experiment.out}/exp/tri1_ali/ali.1.gz is missing or empty"
    assert f"in_jobs has ended without an error, but {missing}" in said
    assert "Stage 4 (kaldi_tri1_ali) failed with status 1" in said
    assert [call.split()[0] for call in experiment.calls()] == ["train_deltas.sh", "align_si.sh"]


@pytest.mark.slow
def test_step_is_repeated_when_what_it_reads_has_changed(experiment: KaldiExperiment) -> None:
    def scripts(*options: str) -> list[str]:
        assert experiment.run("--stop-stage", "3", *options).endswith("status 0")
        return [call.split()[0] for call in experiment.calls()]

    scripts()
    (experiment.out / "data/dev/text").write_text("dev0 other words\n")
    assert scripts() == ["make_mfcc.sh", "compute_cmvn_stats.sh", "fix_data_dir.sh"]
    (experiment.out / "exp/mono_ali/ali.1.gz").unlink()
    assert scripts() == ["align_si.sh", "train_deltas.sh"]
    assert scripts("--stage", "3", "--force") == ["align_si.sh", "train_deltas.sh"]


@pytest.mark.skipif(not shutil.which("flock"), reason="there is no flock, so nothing is locked")
def test_second_script_in_a_folder_is_refused_while_jobs_of_the_first_are_there(
    experiment: KaldiExperiment,
) -> None:
    with (experiment.out / ".kaldi_gmm.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = experiment.run("--stop-stage", "0")
    busy = f"{experiment.out}: another kaldi_gmm.sh is at work in this folder: wait until it ends"
    assert busy in said
    assert said.endswith("status 1")
    assert experiment.calls() == []
    job = "sleep 99 >/dev/null 2>&1 & echo $! >job; exit 1"  # it goes on alone
    executable(experiment.kaldi / "egs/wsj/s5/utils/prepare_lang.sh", f"#!/bin/bash\n{job}\n")
    assert busy not in experiment.run("--stop-stage", "0")
    assert busy in experiment.run("--stop-stage", "0")
    os.kill(int((experiment.out / "job").read_text()), signal.SIGKILL)
    executable(experiment.kaldi / "egs/wsj/s5/utils/prepare_lang.sh", STUB)
    assert experiment.run("--stop-stage", "0").endswith("status 0")


@pytest.mark.slow
def test_sphere_becomes_riff_for_kaldi(experiment: KaldiExperiment) -> None:
    header = "NIST_1A\n   1024\nsample_count -i 3\nsample_rate -i 16000\nchannel_count -i 1\n"
    header += "sample_n_bytes -i 2\nsample_byte_format -s2 10\nend_head\n"
    sound = experiment.folder / "a sphere.wav"
    sound.write_bytes(header.encode().ljust(1024) + struct.pack(">3h", 1, -2, 30000))
    (experiment.out / "data/dev/wav.scp").write_text(f"dev0 {sound}\n")
    assert experiment.run("--stop-stage", "1").endswith("status 0")
    copy = experiment.out / "data-mfcc/dev/wav/dev0.wav"
    assert read_mapping(copy.parent.parent / "wav.scp") == {"dev0": str(copy)}
    with wave.open(str(copy)) as riff:
        assert (riff.getframerate(), riff.getnchannels(), riff.getsampwidth()) == (16000, 1, 2)
        assert struct.unpack("<3h", riff.readframes(4)) == (1, -2, 30000)


@pytest.mark.slow
def test_kaldi_is_found_by_path_sh_and_its_commands_by_cmd_sh(experiment: KaldiExperiment) -> None:
    (experiment.folder / "path.sh").write_text("export KALDI_ROOT=`pwd`/a\\ kaldi/./\n[ $x ]\n")
    (experiment.folder / "checkout/cmd.sh").write_text("export train_cmd='queue.pl -l x'\n")
    said = experiment.run("--stop-stage", "1", "--nj", "1", KALDI_ROOT="")
    assert said.endswith("status 0"), said
    assert "make_mfcc.sh --cmd queue.pl -l x --nj 1" in experiment.calls()[2]
    kept = (experiment.out / "path.sh").read_text()
    assert f"KALDI_ROOT='{experiment.kaldi}'" in kept
    (experiment.folder / "path.sh").unlink()
    again = experiment.run("--stop-stage", "1", "--nj", "1", KALDI_ROOT="")
    assert again.endswith("mfcc_test: complete\nstatus 0"), again


@pytest.mark.parametrize(
    ("damage", "options", "message"),
    [
        ("", ["--dim", "92"], "--dim 92: LDA has 7 frames of 13 cepstra"),
        ("", ["--nj", "0"], "--nj 0: at least one"),
        ("", ["--recipe", "none"], "recipes/none/kaldi.sh"),
        ("", ["--out", "nowhere"], "there is no nowhere/data"),
        ("mv out 'an out'", ["--out", "an out"], "cannot work in a folder whose name holds"),
        ("touch out/path.sh", [], "is an experiment of Kaldi's own"),
        ("rm -r 'a kaldi/egs'", [], "there are no scripts of Kaldi in"),
        ("rm -r 'a kaldi/src/gmmbin'", [], "the program gmm-est-fmllr is neither there nor"),
        ("rm out/data/dev/wav.scp", [], "data/dev: neither wav.scp nor feats.scp"),
    ],
)
def test_what_is_missing_is_said(
    experiment: KaldiExperiment, damage: str, options: list[str], message: str
) -> None:
    subprocess.run(["bash", "-c", damage], cwd=experiment.folder, check=True)
    said = experiment.run(*options, PATH="/usr/bin:/bin")
    assert message in said
    assert not said.endswith("status 0")
    assert not (experiment.out / "exp").exists()


def test_no_kaldi_at_all_is_said(experiment: KaldiExperiment) -> None:
    said = experiment.run(KALDI_ROOT="")
    assert "Kaldi is needed: set KALDI_ROOT to its folder" in said
    assert said.endswith("status 1")


@pytest.mark.kaldi
@pytest.mark.timeout(7200)
def test_real_kaldi_trains_the_sample(shared_data: Path, tmp_path: Path) -> None:
    """From sound to fMLLR: what the network's training will read fits together."""
    if not os.environ.get("KALDI_ROOT"):
        pytest.skip("KALDI_ROOT is not set")
    prepare = [sys.executable, ROOT / "recipes/timit/prepare.py", "--out", tmp_path]
    subprocess.run([*prepare, "--corpus", shared_data / "timit_sample"], check=True)
    train = [ROOT / "local/kaldi_gmm.sh", "--recipe", "timit", "--out", tmp_path, "--nj", "2"]
    subprocess.run(train, check=True, stdin=subprocess.DEVNULL)
    model = read_transition_model(tmp_path / "exp/tri3_ali/final.mdl")
    known = read_transition_model(shared_data / "kaldi/timit_sample/exp/tri3_ali/final.mdl")
    assert abs(model.num_pdfs - known.num_pdfs) <= 8, "other jobs, other dither"
    graph = read_fst(tmp_path / "exp/tri3/graph/HCLG.fst")
    assert graph.ilabel.max() == model.num_transition_ids
    for name, most_lost in (("train", 4), ("dev", 2), ("test", 6)):
        data = read_data_dir(tmp_path / "data-fmllr-tri3" / name)
        assert data.utt2spk == read_mapping(tmp_path / "data" / name / "utt2spk")
        features = dict(iter_matrices(data.path / "feats.scp"))
        assert features.keys() == data.utt2spk.keys()
        assert {matrix.shape[1] for matrix in features.values()} == {40}
        folder = tmp_path / "exp" / f"tri3_ali_{name}".removesuffix("_train")
        aligned = dict(pair for ark in folder.glob("ali.*.gz") for pair in iter_int_vectors(ark))
        assert len(features) - len(aligned) <= most_lost
        for utt, tids in aligned.items():
            assert len(tids) == len(features[utt])
    again = subprocess.run(train, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    assert again.stdout.count(b": complete") == 20
