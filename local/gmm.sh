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
# shellcheck disable=SC2329  # functions are called as commands of stages
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=local/options.sh
. "$root/local/options.sh"
# shellcheck source=local/setup.sh
. "$root/local/setup.sh"
# shellcheck source=local/stages.sh
. "$root/local/stages.sh"

# in_jobs STEP ARGUMENT... [OPTION...]: a step of bayes-asr gmm that $nj jobs or processes share, into the folder that is
# its last argument; with --force from the beginning. It takes the place of the shell, so that signals reach it.
in_jobs() {
    local word folder starter=${train_cmd:-}
    [[ $1 != decode ]] || starter=${decode_cmd:-$starter}
    for word in "$@"; do
        [[ $word != -* ]] || break
        folder=$word
    done
    [[ -z $force ]] || rm -rf "$folder"
    exec bayes-asr gmm "$@" --nj "$nj" ${starter:+--cmd "$starter"}
}

# own_options OPTION... [LEAVES GAUSSIANS]: print, a word a line, what a recipe gives to Kaldi's scripts as bayes-asr gmm
# calls it, without what it does anyhow. It refuses what it does not have.
own_options() {
    while (($#)); do
        (($# > 1)) || fail "$recipe/kaldi.sh: nothing stands behind $1: settings are --OPTION VALUE, or LEAVES GAUSSIANS"
        case $1 in
            --use-graphs) ;;
            --totgauss) printf '%s\n' --gaussians "$2" ;;
            --*) printf '%s\n' "$1" "$2" ;;
            *) printf '%s\n' --leaves "$1" --gaussians "$2" ;;
        esac
        shift 2
    done
}

# align_options SCRIPT OPTION...: the same of a script of Kaldi's that aligns.
align_options() {
    [[ $1 != */align_fmllr.sh ]] || echo --adapt
    own_options "${@:2}"
}

# choose_options FUNCTION WORD...: set $options to the words, one a line, that a function prints of a recipe's settings.
choose_options() {
    local lines
    lines=$("$@")
    options=()
    [[ -z $lines ]] || mapfile -t options <<<"$lines"
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
    [[ ! -f data/$1/wav.scp ]] || exec bayes-asr features "data/$1" ${dither:+--dither "$dither"} ${max_skipped:+--max-skipped "$max_skipped"} \
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
    exec bayes-asr gmm score "$folder" "${@:1:$#-3}" --set=data.dir="$(quoted "$out")" "${references[@]}" \
        ${max_skipped:+--set=data.max_skipped="$max_skipped"} --nj "$nj"
}

# settings_of CONFIG...: the graph that it names; how it decodes and scores. What it includes and how it folds phones counts.
settings_of() {
    python -P -c 'import sys
from bayes_asr.config.merge import load
from bayes_asr.evaluate.score.conventions import list_foldings
c = load(sys.argv[1:])
print(*c.data.graph)
print(c.decode, c.score, *(file.read_bytes() for file in list_foldings(c.score.conventions) if file.is_file()))' "$@"
}

{ # read to its end before it begins: bash reads a script while it runs, and this one may be updated meanwhile

    # Defaults of the options, which the lines `--NAME VALUE` above declare.
    recipe='' out='' dim=40 nj=$(getconf _NPROCESSORS_ONLN) config=() max_skipped='' stage=0 stop_stage=8 force=''
    parse_options "$@"
    # shellcheck source=local/gmm_settings.sh
    . "$root/local/gmm_settings.sh"
    ((${#config[@]})) || config=("$recipe/config.yaml")
    for i in "${!config[@]}"; do
        [[ ${config[i]} == /* ]] || config[i]=$PWD/${config[i]}
    done
    set_up mini,report
    keep_others_out
    cd "$out"

    # MFCC lie beside the text that is aligned.
    cepstra=data
    [[ $aligned == dict ]] || cepstra=data-align
    languages=(data/lang/L.fst)
    for task in "${tasks[@]}"; do
        [[ dict$task == "$aligned" ]] || languages+=("$(language_of "$task")/L.fst")
    done

    # Stage 0: the language.
    if ((stage <= 0 && stop_stage >= 0)); then
        forget_changed_dictionary log/gmm_lang.done
        run_stage 0 gmm_lang "$out" makes "${languages[@]}" -- language "$oov" "${lang[@]}" "$(language_checksum)"
    fi

    # Stage 1: MFCC of sound. A recipe may have prepared features itself.
    if ((stage <= 1 && stop_stage >= 1)); then
        for name in "${sets[@]}"; do
            if [[ $cepstra != data || -f data/$name/wav.scp ]]; then
                forget_changed_sounds "log/gmm_mfcc_$name.done" "data/$name/wav.scp" # of which the stage has a checksum
                run_stage 1 "gmm_mfcc_$name" "$out" makes "$cepstra/$name"/{feats,cmvn}.scp -- \
                    mfcc "$name" "$(data_checksum "$name")${dither:+ dither $dither}"
            fi
        done
    fi

    # Stage 2: monophones, of a subset where the recipe wants one.
    train=$cepstra/train
    if ((stage <= 2 && stop_stage >= 2)); then
        mono_train=$train
        if ((mono_utterances && mono_utterances < $(wc -l <data/train/utt2spk))); then
            mono_train=$cepstra/train_mono
            # of those that have features, which may be fewer than are spoken
            number=$(wc -l 2>/dev/null <"$train/feats.scp") || number=$mono_utterances
            run_stage 2 gmm_subset "$out" "$train"/{feats.scp,cmvn.scp,utt2spk,text} makes "$mono_train/feats.scp" -- \
                python "$root/local/subset_data.py" "$train" "$((number < mono_utterances ? number : mono_utterances))" "$mono_train"
        fi
        choose_options own_options "${mono[@]}"
        run_stage 2 gmm_mono "$out" "$mono_train"/{feats.scp,cmvn.scp,utt2spk,text} data/lang/L.fst makes exp/mono/{final.mdl,tree} -- \
            in_jobs mono "$mono_train" data/lang exp/mono "${options[@]}"
    fi

    # Stage 3: triphones of deltas.
    if ((stage <= 3 && stop_stage >= 3)); then
        choose_options align_options "${mono_ali[@]}"
        run_stage 3 gmm_mono_ali "$out" "$train"/{feats.scp,cmvn.scp,utt2spk,text} exp/mono/final.mdl makes exp/mono_ali/ali.1.gz -- \
            in_jobs align "$train" data/lang exp/mono exp/mono_ali "${options[@]}"
        choose_options own_options "${tri1[@]}"
        run_stage 3 gmm_tri1 "$out" exp/mono_ali/ali.1.gz makes exp/tri1/{final.mdl,tree} -- \
            in_jobs deltas "$train" data/lang exp/mono_ali exp/tri1 "${options[@]}"
    fi

    # Stage 4: LDA and MLLT.
    if ((stage <= 4 && stop_stage >= 4)); then
        choose_options align_options "${tri1_ali[@]}"
        run_stage 4 gmm_tri1_ali "$out" exp/tri1/final.mdl makes exp/tri1_ali/ali.1.gz -- \
            in_jobs align "$train" data/lang exp/tri1 exp/tri1_ali "${options[@]}"
        choose_options own_options "${tri2[@]}"
        run_stage 4 gmm_tri2 "$out" exp/tri1_ali/ali.1.gz makes exp/tri2/{final.mdl,final.mat,tree} -- \
            in_jobs lda-mllt "$train" data/lang exp/tri1_ali exp/tri2 \
            --dim "$dim" --left-context 3 --right-context 3 "${options[@]}"
    fi

    # Stage 5: speaker adaptation.
    if ((stage <= 5 && stop_stage >= 5)); then
        choose_options align_options "${tri2_ali[@]}"
        run_stage 5 gmm_tri2_ali "$out" exp/tri2/final.mdl makes exp/tri2_ali/ali.1.gz -- \
            in_jobs align "$train" data/lang exp/tri2 exp/tri2_ali "${options[@]}"
        choose_options own_options "${tri3[@]}"
        run_stage 5 gmm_tri3 "$out" exp/tri2_ali/ali.1.gz makes exp/tri3/{final.mdl,final.alimdl,final.mat,tree} -- \
            in_jobs sat "$train" data/lang exp/tri2_ali exp/tri3 "${options[@]}"
    fi

    # Stage 6: graphs, decoding and scores of all models; where the configuration names the graph of words, of words. The
    # transforms come from the first task, which tri3 decodes anyhow.
    if ((stage <= 6 && stop_stage >= 6)); then
        scored=''
        settings=$(settings_of "${config[@]}")
        if ((${#tasks[@]} > 1)) && [[ ${settings%%$'\n'*} == *_words ]]; then
            scored=_words
        fi
        dev=${sets[1]} test=${sets[2]}
        choose_options own_options "${decode[@]}"
        for model in mono tri1 tri2 tri3; do
            suffix=_$model decoded=("$scored")
            if [[ $model == tri3 ]]; then
                suffix='' decoded=('' ${scored:+"$scored"})
            fi
            for task in "${tasks[@]}"; do
                run_stage 6 "gmm_graph$suffix$task" "$out" "exp/$model/final.mdl" "${languages[@]}" \
                    makes "exp/$model/graph$task"/{HCLG.fst,words.txt} -- bayes-asr graph --lang "$(language_of "$task")" \
                    --lm "data/local/lm$task.arpa" --model "exp/$model/final.mdl" --out "exp/$model/graph$task"
            done
            for task in "${decoded[@]}"; do
                for name in "${sets[@]:1}"; do
                    run_stage 6 "gmm_decode$suffix${task}_$name" "$out" "$cepstra/$name"/{feats.scp,cmvn.scp,utt2spk} \
                        "exp/$model/graph$task/HCLG.fst" makes "exp/$model/decode${task}_$name"/{trans.1,lat.1.gz} -- \
                        in_jobs decode "$cepstra/$name" "exp/$model/graph$task" "exp/$model" "exp/$model/decode${task}_$name" \
                        --wip "${wip[@]}" "${options[@]}" ${max_skipped:+--max-skipped "$max_skipped"}
                done
            done
            texts=$(checksum "data/$dev"/{text{,_words},stm,glm} "data/$test"/{text{,_words},stm,glm})
            run_stage 6 "gmm_score$suffix$scored" "$out" "exp/$model/decode${scored}_$dev/lat.1.gz" \
                "exp/$model/decode${scored}_$test/lat.1.gz" makes "gmm/$model$scored"/score_{dev,test}.json -- \
                score "${config[@]}" "$model" "$scored" "$texts $(cksum <<<"${settings#*$'\n'}")"
        done
    fi

    # Stage 7: alignments. Networks learn from these, so nothing that Kaldi's aligner gives up may be lost.
    if ((stage <= 7 && stop_stage >= 7)); then
        choose_options align_options "${tri3_ali[@]}"
        for name in "${sets[@]}"; do
            ali=exp/tri3_ali
            [[ $name == train ]] || ali+=_$name
            run_stage 7 "gmm_ali_$name" "$out" "$cepstra/$name"/{feats.scp,cmvn.scp,utt2spk,text} exp/tri3/final.mdl \
                makes "$ali"/{ali.1.gz,trans.1,final.mdl,tree} -- \
                in_jobs align "$cepstra/$name" data/lang exp/tri3 "$ali" "${options[@]}" --rescue true
        done
    fi

    # Stage 8: fMLLR, of dev and test by the transforms of decoding, of train by those of its alignment.
    if ((stage <= 8 && stop_stage >= 8)); then
        for name in "${sets[@]}"; do
            transforms=exp/tri3/decode_$name
            [[ $name != train ]] || transforms=exp/tri3_ali
            forget_other_tables "data/$name" "data-fmllr-tri3/$name" "log/gmm_fmllr_$name.done"
            run_stage 8 "gmm_fmllr_$name" "$out" "$transforms/trans.1" makes "data-fmllr-tri3/$name"/{feats,cmvn}.scp -- \
                bayes-asr gmm features "data/$name" exp/tri3 "$transforms" "data-fmllr-tri3/$name"
        done
    fi
    exit
}
