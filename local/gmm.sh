#!/usr/bin/env bash
# Trains GMMs on the prepared data of a recipe: alignments, a graph and fMLLR features for the network. These are the
# steps of local/kaldi_gmm.sh without Kaldi, by bayes-asr gmm. A step that is complete is not repeated.
#
# usage: local/gmm.sh --recipe NAME --out OUT [options]
#
#   --recipe NAME|DIR  a folder of recipes/, or any folder that holds a kaldi.sh
#   --out DIR          where the recipe has prepared data/; everything is written there
#   --dim N            dimension of the features: 40, as in Kaldi's recipes, or 50 (default: 40)
#   --nj N             processes, or jobs (default: the number of processors)
#   --config FILE...   how errors are counted; may be repeated (default: config.yaml of the recipe)
#   --max-skipped S    share of the utterances of a set that may have no frame (default: 0.05)
#   --stage N          first stage (default: 0)
#   --stop-stage N     last stage (default: 8)
#   --force            repeat the stages even where they are complete
#
# Stages: 0 language, 1 MFCC, 2 mono, 3 tri1 (deltas), 4 tri2 (LDA+MLLT), 5 tri3 (SAT), 6 graphs, decoding and scores,
# 7 alignments, 8 fMLLR. The transforms of dev and test come from decoding, those of train from its alignment.
# Where train_cmd (training, alignment) and decode_cmd are set, such as queue.pl, they start the jobs; otherwise
# processes of this machine share the work.
# Results: OUT/data-fmllr-tri3/SET, OUT/exp/tri3_ali{,_dev,_test}, OUT/exp/tri3/graph and
# OUT/gmm/{mono,tri1,tri2,tri3}/score_{dev,test}.json. Where there is data/local/dict_words, there is also
# OUT/exp/tri3/graph_words; a configuration that names it has words decoded and scored, in OUT/gmm/MODEL_words.
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

stamps=gmm_ cepstra=data decoded=(mono tri1 tri2 tri3)

way_language() { command=(language "$oov" "${lang[@]}" "$1"); }
way_mfcc() { # of sound: a recipe may have prepared features itself
    [[ $cepstra == data && ! -f data/$1/wav.scp ]] || command=(mfcc "$@")
}
way_subset() { # of those that have features, which may be fewer than are spoken
    local there
    there=$(wc -l 2>/dev/null <"$1/feats.scp") || there=$2
    command=(python "$root/local/subset_data.py" "$1" "$((there < $2 ? there : $2))" "$3")
}
way_mono() { call mono "${mono[@]}" -- "$@"; }
way_deltas() { call deltas "${tri1[@]}" -- "$@"; }
way_lda_mllt() { call lda-mllt --dim "$dim" --left-context 3 --right-context 3 "${tri2[@]}" -- "$@"; }
way_sat() { call sat "${tri3[@]}" -- "$@"; }
way_align() {
    local -n script_of_model=${3##*/}_ali
    local adapt=() lost=()
    [[ $script_of_model != */align_fmllr.sh ]] || adapt=(--adapt)
    # Networks learn from these, so nothing that Kaldi's aligner gives up may be lost.
    [[ $3 != exp/tri3 ]] || lost=(--rescue true)
    call align "${script_of_model[@]:1}" "${lost[@]}" -- "$@" "${adapt[@]}"
}
way_graph() {
    command=(bayes-asr graph --lang "$(language_of "$2")" --lm "data/local/lm$2.arpa" --model "$1/final.mdl" --out "$1/graph$2")
}
way_decode() {
    in_own_words "${decode[@]}"
    command=(in_jobs decode "$@" --wip "${wip[@]}" "${words[@]}" ${max_skipped:+--max-skipped "$max_skipped"})
}
way_score() { command=(score "${config[@]}" "$1" "$2" "$3 $(checksum "${config[@]}")"); }
way_fmllr() { command=(bayes-asr gmm features "data/$1" exp/tri3 "$2" "data-fmllr-tri3/$1"); }

# call STEP OPTION... -- ARGUMENT...: set $command to a step of bayes-asr gmm with the options of a script of Kaldi's.
call() {
    local name=$1 options=()
    shift
    while [[ $1 != -- ]]; do
        options+=("$1") && shift
    done
    in_own_words "${options[@]}"
    command=(in_jobs "$name" "${@:2}" "${words[@]}")
}

# in_own_words OPTION... [LEAVES GAUSSIANS]: set $words to what a recipe gives to Kaldi's scripts, as bayes-asr gmm calls
# it, without what it does anyhow. It refuses what it does not have.
in_own_words() {
    words=()
    while (($#)); do
        case $1 in
            --use-graphs) ;;
            --totgauss) words+=(--gaussians "$2") ;;
            --*) words+=("$1" "$2") ;;
            *) words+=(--leaves "$1" --gaussians "$2") ;;
        esac
        shift 2
    done
}

# in_jobs STEP ARGUMENT...: a step of bayes-asr gmm that $nj jobs or processes share; with --force from the beginning.
# It takes the place of the shell, so that signals reach it.
in_jobs() {
    local starter=${train_cmd:-}
    [[ $1 != decode ]] || starter=${decode_cmd:-$starter}
    [[ -z $force ]] || rm -rf "${outputs[0]%/*}" # those of `step`
    exec bayes-asr gmm "$@" --nj "$nj" ${starter:+--cmd "$starter"}
}

# language_of TASK: the lang folder of its graphs, that of the alignments if it has the same dictionary.
language_of() {
    [[ dict$1 == "$aligned" ]] && echo data/lang || echo "data/lang_test$1"
}

# language OOV OPTION... CHECKSUM: the lang folders of the dictionaries.
language() {
    local task
    bayes-asr gmm lang "data/local/$aligned" data/lang --oov "$1" "${@:2:$#-2}" || return
    for task in "${tasks[@]}"; do
        [[ dict$task == "$aligned" ]] ||
            bayes-asr gmm lang "data/local/dict$task" "$(language_of "$task")" --oov "$1" "${@:2:$#-2}" || return
    done
}

# mfcc SET CHECKSUM: 13 cepstra and their statistics by speaker, and where words are aligned a view of the set with them.
mfcc() {
    local name
    if [[ $cepstra != data ]]; then
        mkdir -p "$cepstra/$1"
        for name in {feats,cmvn}.scp utt2spk spk2utt frontend.json; do
            ln -sfn "../../data/$1/$name" "$cepstra/$1/$name"
        done
        ln -sfn "../../data/$1/text_words" "$cepstra/$1/text"
    fi
    [[ ! -f data/$1/wav.scp ]] || exec bayes-asr features "data/$1" ${max_skipped:+--max-skipped "$max_skipped"} \
        ${train_cmd:+--cmd "$train_cmd" --nj "$nj"}
}

# score CONFIG... MODEL TASK CHECKSUMS: the errors of dev and test, as those of a run, in gmm/MODEL.
score() {
    local model=${*: -3:1} task=${*: -2:1} name set folder=gmm/${*: -3:1}${*: -2:1} references=()
    mkdir -p "$folder"
    for name in dev test; do
        set=${sets[1]}
        [[ $name == dev ]] || set=${sets[2]}
        ln -sfn "../../exp/$model/decode${task}_$set" "$folder/decode_$name"
        references+=("--set=data.$name.features=[data/$set]")
    done
    exec bayes-asr gmm score "$folder" "${@:1:$#-3}" --set=data.dir="$out" "${references[@]}" \
        ${max_skipped:+--set=data.max_skipped="$max_skipped"} --nj "$nj"
}

# graph_of CONFIG...: the graph that it names.
graph_of() {
    python -P -c 'import sys; from bayes_asr.config.merge import load; print(*load(sys.argv[1:]).data.graph)' "$@"
}

config=() max_skipped=''
read_gmm_options "$@"
((${#config[@]})) || config=("$recipe/config.yaml")
for i in "${!config[@]}"; do
    [[ ${config[i]} == /* ]] || config[i]=$PWD/${config[i]}
done
set_up mini,report
keep_others_out
cd "$out"
language_makes=(data/lang/L.fst)
for task in "${tasks[@]}"; do
    [[ dict$task == "$aligned" ]] || language_makes+=("$(language_of "$task")/L.fst")
done
[[ $aligned == dict ]] || cepstra=data-align
if ((${#tasks[@]} > 1)) && [[ $(graph_of "${config[@]}") == *_words ]]; then
    tried=("${tasks[@]}") scored=_words # the transforms come from the first task
fi

train_gmms; exit
