#!/usr/bin/env bash
# Trains Kaldi's GMMs on the prepared data of a recipe: alignments, a graph and fMLLR features for the network.
# Needs the user's Kaldi, through KALDI_ROOT or a path.sh. A step that is complete is not repeated.
#
# usage: local/kaldi_gmm.sh --recipe NAME --out OUT [options]
#
#   --recipe NAME|DIR  a folder of recipes/, or any folder that holds a kaldi.sh
#   --out DIR          where the recipe has prepared data/; everything is written there
#   --dim N            dimension of the features: 40, as in Kaldi's recipes, or 50 (default: 40)
#   --nj N             parallel jobs, at most one for each speaker (default: the number of processors)
#   --stage N          first stage (default: 0)
#   --stop-stage N     last stage (default: 8)
#   --force            repeat the stages even where they are complete
#
# Stages: 0 language, 1 MFCC, 2 mono, 3 tri1 (deltas), 4 tri2 (LDA+MLLT), 5 tri3 (SAT), 6 graph and decoding,
# 7 alignments, 8 fMLLR. The transforms of dev and test come from decoding, those of train from its alignment.
# Jobs are started by train_cmd and decode_cmd, from the environment or a cmd.sh (default: run.pl, on this machine).
# Results: OUT/data-fmllr-tri3/SET, OUT/exp/tri3_ali{,_dev,_test} and OUT/exp/tri3/graph.
# shellcheck disable=SC2329  # functions are called by name, as commands of steps
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=local/options.sh
. "$root/local/options.sh"
# shellcheck source=local/setup.sh
. "$root/local/setup.sh"
# shellcheck source=local/stages.sh
. "$root/local/stages.sh"
# shellcheck source=local/gmm_steps.sh
. "$root/local/gmm_steps.sh"
# shellcheck source=local/kaldi.sh
. "$root/local/kaldi.sh"

stamps=kaldi_ checked=true cepstra=data-mfcc decoded=(tri3)

way_language() { command=(language "$oov" "${lang[@]}" "$1"); }
way_mfcc() { command=(mfcc "$@"); }
way_subset() { command=(utils/subset_data_dir.sh "$@"); }
way_mono() { command=(in_jobs "$1" steps/train_mono.sh "${mono[@]}" "$@"); }
way_deltas() { command=(kaldi steps/train_deltas.sh "${tri1[@]}" "$@"); }
way_lda_mllt() {
    local splice='--left-context=3 --right-context=3'
    command=(kaldi steps/train_lda_mllt.sh --dim "$dim" --splice-opts "$splice" "${tri2[@]}" "$@")
}
way_sat() { command=(kaldi steps/train_sat.sh "${tri3[@]}" "$@"); }
way_align() {
    local -n script_of_model=${3##*/}_ali
    command=(in_jobs "$1" "${script_of_model[@]}" "$@")
}
way_graph() { command=(graph "$@"); }
way_decode() {
    command=(in_jobs "$1" steps/decode_fmllr.sh --skip-scoring true "${decode[@]}" "$2" "$1" "$4")
}
way_score() { :; } # bayes-asr rescore reads the lattices
way_fmllr() { command=(fmllr "$@"); }

# language OOV OPTION... CHECKSUM: L from the dictionary, and of each task L and G from its language model.
language() {
    local task
    pronunciations "$aligned" data/lang "${@:1:$#-1}" || return
    for task in "${tasks[@]}"; do
        if [[ dict$task == "$aligned" ]]; then
            cp -r data/lang data/lang_test || return
        else
            pronunciations "dict$task" "data/lang_test$task" "${@:1:$#-1}" || return
        fi
        arpa2fst --disambig-symbol=#0 --read-symbol-table="data/lang_test$task/words.txt" "data/local/lm$task.arpa" \
            "data/lang_test$task/G.fst" || return
    done
}

# pronunciations DICT LANG OOV OPTION...: the folder LANG of a dictionary below data/local.
pronunciations() {
    local scratch=data/local/lang_tmp
    rm -rf "$scratch" && mkdir "$scratch" && cp -r "data/local/$1" "$scratch/dict" && # Kaldi adds a file to it
        utils/prepare_lang.sh "${@:4}" "$scratch/dict" "$3" "$scratch" "$2"
}

# mfcc SET CHECKSUM: 13 cepstra and their statistics by speaker, unless the recipe has prepared features itself.
mfcc() {
    python "$root/local/kaldi_data.py" "data/$1" "data-mfcc/$1" || return
    [[ $aligned == dict ]] || cp "data/$1/text_words" "data-mfcc/$1/text" || return
    if [[ -f data/$1/wav.scp ]]; then
        in_jobs "data-mfcc/$1" steps/make_mfcc.sh --mfcc-config conf/mfcc.conf "data-mfcc/$1" || return
    fi
    steps/compute_cmvn_stats.sh "data-mfcc/$1" && utils/fix_data_dir.sh "data-mfcc/$1"
}

# graph MODEL TASK: HCLG.
graph() {
    local command
    read -ra command <<<"$decode_cmd"
    "${command[@]}" "$1/graph$2/mkgraph.log" utils/mkgraph.sh "data/lang_test$2" "$1" "$1/graph$2"
}

# fmllr SET TRANSFORMS: the features of the network and their statistics by speaker.
fmllr() {
    local source=data-mfcc/$1 target=data-fmllr-tri3/$1
    # Kaldi's script copies the data directory, and copying insists on a wav.scp.
    [[ -f data/$1/wav.scp ]] || sed 's/ .*/ absent/' "$source/utt2spk" >"$source/wav.scp"
    if ! in_jobs "$source" steps/nnet/make_fmllr_feats.sh --transform-dir "$2" \
        "$target" "$source" exp/tri3 "$target/log" "$target/data" || ! steps/compute_cmvn_stats.sh "$target"; then
        rm -f "$target/feats.scp" # it may be a copy of the MFCC
        return 1
    fi
    cp "data/$1"/text* "$target" || return # what was aligned may be another
    [[ -f data/$1/wav.scp ]] || rm "$source/wav.scp" "$target/wav.scp"
}

read_gmm_options "$@"
language_makes=(data/lang/L.fst)
for task in "${tasks[@]}"; do
    language_makes+=("data/lang_test$task/G.fst")
done
set_up mini,report
find_kaldi
enter_experiment
mkdir -p conf
echo '--use-energy=false' >conf/mfcc.conf

train_gmms; exit
