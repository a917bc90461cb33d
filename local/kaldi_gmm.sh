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
# shellcheck source=local/kaldi.sh
. "$root/local/kaldi.sh"

# What a recipe's kaldi.sh may set otherwise: arrays hold options and arguments of the script of that step.
sets=(train dev test)
oov='<UNK>' lang=(--position-dependent-phones false)
mono_utterances=0 mono=() mono_ali=(steps/align_si.sh)
tri1=(2500 15000) tri1_ali=(steps/align_si.sh)
tri2=(2500 15000) tri2_ali=(steps/align_si.sh --use-graphs true)
tri3=(2500 15000) decode=()

# language OOV OPTION... CHECKSUM: L from the dictionary, G from the language model. Where a recipe prepares dict_align,
# transcripts are aligned by it. dict_words and lm_words.arpa are another task of the same models.
language() {
    local aligned=dict task
    [[ ! -d data/local/dict_align ]] || aligned=dict_align
    pronunciations "$aligned" data/lang "${@:1:$#-1}" || return
    for task in '' _words; do
        [[ -d data/local/dict$task ]] || continue
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
    [[ ! -d data/local/dict_align ]] || cp "data/$1/text_words" "data-mfcc/$1/text" || return
    if [[ -f data/$1/wav.scp ]]; then
        in_jobs "data-mfcc/$1" steps/make_mfcc.sh --mfcc-config conf/mfcc.conf "data-mfcc/$1" || return
    fi
    steps/compute_cmvn_stats.sh "data-mfcc/$1" && utils/fix_data_dir.sh "data-mfcc/$1"
}

# graph: HCLG of the last model, for each task.
graph() {
    local command task
    read -ra command <<<"$decode_cmd"
    for task in '' _words; do
        [[ ! -d data/lang_test$task ]] ||
            "${command[@]}" "exp/tri3/graph$task/mkgraph.log" \
                utils/mkgraph.sh "data/lang_test$task" exp/tri3 "exp/tri3/graph$task" || return
    done
}

# alignment SET: the folder of its alignments.
alignment() {
    [[ $1 == train ]] && echo exp/tri3_ali || echo "exp/tri3_ali_$1"
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

# train_gmms: all steps. A function, since bash reads a script while it runs: it may be updated meanwhile.
train_gmms() {
    local set source ali transforms train=data-mfcc/train first=data-mfcc/train
    step 0 lang makes data/lang/L.fst data/lang_test/G.fst -- \
        language "$oov" "${lang[@]}" "$(checksum data/local/dict/{lexicon,{,non}silence_phones}.txt data/local/lm.arpa)"
    for set in "${sets[@]}"; do
        source=feats.scp
        [[ ! -f data/$set/wav.scp ]] || source=wav.scp
        step 1 "mfcc_$set" makes "data-mfcc/$set"/{feats,cmvn}.scp -- \
            mfcc "$set" "$(checksum "data/$set"/{text,utt2spk,segments,$source})"
    done

    if ((mono_utterances && mono_utterances < $(wc -l <data/train/utt2spk))); then
        first=data-mfcc/train_mono
        step 2 subset $train/feats.scp makes $first/feats.scp -- \
            utils/subset_data_dir.sh $train "$mono_utterances" $first
    fi
    step 2 mono $first/feats.scp data/lang/L.fst makes exp/mono/{final.mdl,tree} -- \
        in_jobs $first steps/train_mono.sh "${mono[@]}" $first data/lang exp/mono
    step 3 mono_ali $train/feats.scp exp/mono/final.mdl makes exp/mono_ali/ali.1.gz -- \
        in_jobs $train "${mono_ali[@]}" $train data/lang exp/mono exp/mono_ali
    step 3 tri1 exp/mono_ali/ali.1.gz makes exp/tri1/{final.mdl,tree} -- \
        kaldi steps/train_deltas.sh "${tri1[@]}" $train data/lang exp/mono_ali exp/tri1
    step 4 tri1_ali exp/tri1/final.mdl makes exp/tri1_ali/ali.1.gz -- \
        in_jobs $train "${tri1_ali[@]}" $train data/lang exp/tri1 exp/tri1_ali
    step 4 tri2 exp/tri1_ali/ali.1.gz makes exp/tri2/{final.mdl,final.mat,tree} -- \
        kaldi steps/train_lda_mllt.sh --dim "$dim" --splice-opts '--left-context=3 --right-context=3' \
        "${tri2[@]}" $train data/lang exp/tri1_ali exp/tri2
    step 5 tri2_ali exp/tri2/final.mdl makes exp/tri2_ali/ali.1.gz -- \
        in_jobs $train "${tri2_ali[@]}" $train data/lang exp/tri2 exp/tri2_ali
    step 5 tri3 exp/tri2_ali/ali.1.gz makes exp/tri3/{final.mdl,final.alimdl,final.mat,tree} -- \
        kaldi steps/train_sat.sh "${tri3[@]}" $train data/lang exp/tri2_ali exp/tri3
    step 6 graph exp/tri3/final.mdl data/lang_test/G.fst makes exp/tri3/graph/{HCLG.fst,words.txt} -- graph
    for set in "${sets[@]:1}"; do
        step 6 "decode_$set" "data-mfcc/$set/feats.scp" exp/tri3/graph/HCLG.fst \
            makes "exp/tri3/decode_$set"/{trans.1,lat.1.gz} -- \
            in_jobs "data-mfcc/$set" steps/decode_fmllr.sh --skip-scoring true "${decode[@]}" \
            exp/tri3/graph "data-mfcc/$set" "exp/tri3/decode_$set"
    done
    for set in "${sets[@]}"; do
        ali=$(alignment "$set")
        step 7 "ali_$set" "data-mfcc/$set/feats.scp" exp/tri3/final.mdl \
            makes "$ali"/{ali.1.gz,trans.1,final.mdl,tree} -- \
            in_jobs "data-mfcc/$set" steps/align_fmllr.sh "data-mfcc/$set" data/lang exp/tri3 "$ali"
    done
    for set in "${sets[@]}"; do
        transforms=exp/tri3/decode_$set
        [[ $set != train ]] || transforms=$(alignment train)
        step 8 "fmllr_$set" "$transforms/trans.1" makes "data-fmllr-tri3/$set"/{feats,cmvn}.scp -- \
            fmllr "$set" "$transforms"
    done
}

recipe='' out='' dim=40 nj=$(getconf _NPROCESSORS_ONLN) stage=0 stop_stage=8 force=''
parse_options "$@"
[[ -n $recipe && -n $out ]] || refuse "--recipe and --out are needed (--help tells more)"
((dim > 0 && dim <= 91)) || refuse "--dim $dim: LDA has 7 frames of 13 cepstra to choose from, so 1 to 91"
((nj > 0)) || refuse "--nj $nj: at least one is needed"
[[ $recipe == */* ]] || recipe=$root/recipes/$recipe
[[ -f $recipe/kaldi.sh ]] || refuse "--recipe $recipe: there is no $recipe/kaldi.sh"
[[ -d $out/data ]] || refuse "--out $out: there is no $out/data; prepare the recipe's data first"
out=$(cd "$out" && pwd)
# shellcheck source=/dev/null
. "$recipe/kaldi.sh"
set_up mini,report
find_kaldi
enter_experiment
mkdir -p conf
echo '--use-energy=false' >conf/mfcc.conf

train_gmms; exit
