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
# shellcheck disable=SC2329  # functions are called as commands of stages
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

# step STAGE NAME INPUT... makes OUTPUT... -- COMMAND...: run_stage of a command whose outputs are looked for afterwards.
step() {
    local number=$1 name=$2 inputs=() outputs=()
    shift 2
    while [[ $1 != makes ]]; do
        inputs+=("$1") && shift
    done
    shift
    while [[ $1 != -- ]]; do
        outputs+=("$1") && shift
    done
    run_stage "$number" "kaldi_$name" "$out" "${inputs[@]}" makes "${outputs[@]}" -- made "${outputs[@]}" "$@"
}

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

{ # read to its end before it begins: bash reads a script while it runs, and this one may be updated meanwhile

    # Defaults of the options, which the lines `--NAME VALUE` above declare.
    recipe='' out='' dim=40 nj=$(getconf _NPROCESSORS_ONLN) stage=0 stop_stage=8 force=''
    parse_options "$@"
    # shellcheck source=local/gmm_settings.sh
    . "$root/local/gmm_settings.sh"
    set_up mini,report
    find_kaldi
    enter_experiment
    mkdir -p conf
    echo '--use-energy=false' >conf/mfcc.conf
    train=data-mfcc/train
    languages=(data/lang/L.fst)
    for task in "${tasks[@]}"; do
        languages+=("data/lang_test$task/G.fst")
    done

    # Stage 0: the language.
    if ((stage <= 0 && stop_stage >= 0)); then
        forget_changed_dictionary log/kaldi_lang.done
        step 0 lang makes "${languages[@]}" -- language "$oov" "${lang[@]}" "$(language_checksum)"
    fi

    # Stage 1: MFCC.
    if ((stage <= 1 && stop_stage >= 1)); then
        for name in "${sets[@]}"; do
            forget_changed_sounds "log/kaldi_mfcc_$name.done" "data/$name/wav.scp" # of which the stage has a checksum
            step 1 "mfcc_$name" makes "data-mfcc/$name"/{feats,cmvn}.scp -- mfcc "$name" "$(data_checksum "$name")"
        done
    fi

    # Stage 2: monophones, of a subset where the recipe wants one.
    if ((stage <= 2 && stop_stage >= 2)); then
        mono_train=$train
        if ((mono_utterances && mono_utterances < $(wc -l <data/train/utt2spk))); then
            mono_train=data-mfcc/train_mono
            step 2 subset "$train/feats.scp" makes "$mono_train/feats.scp" -- \
                utils/subset_data_dir.sh "$train" "$mono_utterances" "$mono_train"
        fi
        step 2 mono "$mono_train/feats.scp" data/lang/L.fst makes exp/mono/{final.mdl,tree} -- \
            in_jobs "$mono_train" steps/train_mono.sh "${mono[@]}" "$mono_train" data/lang exp/mono
    fi

    # Stage 3: triphones of deltas.
    if ((stage <= 3 && stop_stage >= 3)); then
        step 3 mono_ali "$train/feats.scp" exp/mono/final.mdl makes exp/mono_ali/ali.1.gz -- \
            in_jobs "$train" "${mono_ali[@]}" "$train" data/lang exp/mono exp/mono_ali
        step 3 tri1 exp/mono_ali/ali.1.gz makes exp/tri1/{final.mdl,tree} -- \
            kaldi steps/train_deltas.sh "${tri1[@]}" "$train" data/lang exp/mono_ali exp/tri1
    fi

    # Stage 4: LDA and MLLT.
    if ((stage <= 4 && stop_stage >= 4)); then
        step 4 tri1_ali exp/tri1/final.mdl makes exp/tri1_ali/ali.1.gz -- \
            in_jobs "$train" "${tri1_ali[@]}" "$train" data/lang exp/tri1 exp/tri1_ali
        step 4 tri2 exp/tri1_ali/ali.1.gz makes exp/tri2/{final.mdl,final.mat,tree} -- \
            kaldi steps/train_lda_mllt.sh --dim "$dim" --splice-opts '--left-context=3 --right-context=3' "${tri2[@]}" \
            "$train" data/lang exp/tri1_ali exp/tri2
    fi

    # Stage 5: speaker adaptation.
    if ((stage <= 5 && stop_stage >= 5)); then
        step 5 tri2_ali exp/tri2/final.mdl makes exp/tri2_ali/ali.1.gz -- \
            in_jobs "$train" "${tri2_ali[@]}" "$train" data/lang exp/tri2 exp/tri2_ali
        step 5 tri3 exp/tri2_ali/ali.1.gz makes exp/tri3/{final.mdl,final.alimdl,final.mat,tree} -- \
            kaldi steps/train_sat.sh "${tri3[@]}" "$train" data/lang exp/tri2_ali exp/tri3
    fi

    # Stage 6: a graph of each task, and decoding by the first one. bayes-asr rescore reads the lattices.
    if ((stage <= 6 && stop_stage >= 6)); then
        for task in "${tasks[@]}"; do
            step 6 "graph$task" exp/tri3/final.mdl "${languages[@]}" makes "exp/tri3/graph$task"/{HCLG.fst,words.txt} -- \
                graph exp/tri3 "$task"
        done
        for name in "${sets[@]:1}"; do
            step 6 "decode_$name" "data-mfcc/$name/feats.scp" exp/tri3/graph/HCLG.fst \
                makes "exp/tri3/decode_$name"/{trans.1,lat.1.gz} -- \
                in_jobs "data-mfcc/$name" steps/decode_fmllr.sh --skip-scoring true "${decode[@]}" exp/tri3/graph \
                "data-mfcc/$name" "exp/tri3/decode_$name"
        done
    fi

    # Stage 7: alignments.
    if ((stage <= 7 && stop_stage >= 7)); then
        for name in "${sets[@]}"; do
            ali=exp/tri3_ali
            [[ $name == train ]] || ali+=_$name
            step 7 "ali_$name" "data-mfcc/$name/feats.scp" exp/tri3/final.mdl \
                makes "$ali"/{ali.1.gz,trans.1,final.mdl,tree} -- \
                in_jobs "data-mfcc/$name" "${tri3_ali[@]}" "data-mfcc/$name" data/lang exp/tri3 "$ali"
        done
    fi

    # Stage 8: fMLLR, of dev and test by the transforms of decoding, of train by those of its alignment.
    if ((stage <= 8 && stop_stage >= 8)); then
        for name in "${sets[@]}"; do
            transforms=exp/tri3/decode_$name
            [[ $name != train ]] || transforms=exp/tri3_ali
            step 8 "fmllr_$name" "$transforms/trans.1" makes "data-fmllr-tri3/$name"/{feats,cmvn}.scp -- \
                fmllr "$name" "$transforms"
        done
    fi
    exit
}
