#!/usr/bin/env bash
# Trains, decodes and scores a recipe, stage by stage. Without options: the mini recipe, on speech that it
# synthesises. The first call makes the Python environment. A stage that is complete is not repeated.
#
# usage: ./run.sh [options]
#
#   --recipe NAME|DIR  a folder of recipes/, or any folder that holds a config.yaml (default: mini)
#   --kaldi-dir DIR    start from this Kaldi experiment (its data/ and exp/) instead of stages 0 to 2
#   --corpus DIR       the corpus as its publisher lays it out, for recipes that prepare one
#   --config FILE...   a configuration on top of the recipe's, may be repeated; the last one names the runs
#   --set KEY=VALUE... values on top of these, may be repeated: --set model.layers=2 model.units=64
#   --out DIR          everything is written below DIR (default: exp/RECIPE)
#   --stage N          first stage (default: 0)
#   --stop-stage N     last stage (default: 7)
#   --nj N             processes of GMMs, decoding and scoring (default: the number of processors)
#   --nproc N          training processes, which share every batch and the processors (default: 1)
#   --seeds N          train with the seeds 1 to N (default: 1)
#   --experiment NAME  train and compare the systems of conf/experiments/NAME, or the recipe's: figure1, figure2, ...
#   --dim N            dimension of the fMLLR features (default: 40), or mel bands of mini
#   --features KIND    fmllr: from GMMs that adapt to speakers (default); fbank: filter banks beside GMMs; mfcc: without
#                      GMMs, a shorter way
#   --force            repeat the stages even where they are complete
#
# Stages: 0 data, 1 features, 2 alignments, 3 train, 4 forward, 5 decode, 6 score, 7 report. 1 and 2 train GMMs,
# Kaldi's where KALDI_ROOT is set or a path.sh is here, ours elsewhere. mini has no use for them. language and commands
# classify utterances in stages 4 to 6. Networks with a decoder write their labels in stages 4 and 5.
# Results: OUT/CONFIG/seedN/score_{dev,test}.json; the last lines printed are the table of error rates. Beside them, on
# standard error, come the times of the stages and what to do next.
# e.g. ./run.sh --recipe timit --corpus /corpora/TIMIT
#      ./run.sh --recipe timit --kaldi-dir ~/kaldi/egs/timit/s5 --seeds 3
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=local/options.sh
. "$root/local/options.sh"
[[ -z ${BAYES_ASR_PYTHON:-} ]] || script='bayes-asr run'
# shellcheck source=local/setup.sh
. "$root/local/setup.sh"
# shellcheck source=local/stages.sh
. "$root/local/stages.sh"

# Defaults of the options, which the lines `--NAME VALUE` above declare.
# shellcheck disable=SC2034  # the recipe reads some
recipe=mini kaldi_dir='' corpus='' config=() set=() out='' stage=0 stop_stage=7
nj=$(getconf _NPROCESSORS_ONLN) nproc='' seeds=1 experiment='' dim='' features='' force=''
parse_options "$@"
refuse_early
set_up mini,report
# What is wrong with the recipe or a configuration is said before any stage.
recipe_folders=() prepare_options=() limits=()
systems=() # of each the verb by which it recognises, its name, and its configuration where the recipe's is not all
learn check recipe_folders=folders prepare_options=prepare-options limits=max-skipped systems=systems

# A complete stage is known by the words of its command, so folders are spelled from the root, and in one way.
recipe_dir=$recipe
[[ $recipe == */* ]] || recipe_dir=$root/recipes/$recipe
out=${out:-$root/exp/$(basename "$(realpath -s "$recipe_dir")")} # also of ./ and ../
[[ $out == /* ]] || out=$PWD/$out
[[ -z $kaldi_dir || $kaldi_dir == /* ]] || kaldi_dir=$PWD/$kaldi_dir
out=$(realpath -ms "$out") kaldi_dir=${kaldi_dir:+$(realpath -ms "$kaldi_dir")}
configuration=("$recipe_dir/config.yaml") # of all systems; stages 1 and 2 may add to it

# Stages 0 to 2 end in alignments of Kaldi's experiment, of the recipe's prepare.py, of Kaldi's GMMs or ours, or of the
# recipe's without_kaldi.sh.
kaldi_sh=$(recipe_file kaldi.sh)
if [[ -n $kaldi_dir ]]; then
    alignments=given
elif [[ ! -f $kaldi_sh ]]; then
    alignments=prepared
elif [[ $features == mfcc ]]; then
    alignments=without_gmm
elif [[ -n ${KALDI_ROOT:-} || -f path.sh || -f $root/path.sh || -f $out/path.sh ]]; then
    alignments=kaldi_gmm
else
    alignments=gmm
fi

# Stages 0 to 2 of a recipe without kaldi.sh: its prepare.py decides itself what is complete.
if [[ $alignments == prepared ]] && ((stage <= 2)); then
    run_stage 0-2 prepare "$out" -- python "$(recipe_file prepare.py)" --out "$out" "${prepare_options[@]}"
fi

# Stage 0: data.
if [[ $alignments != @(given|prepared) ]] && ((stage <= 0 && stop_stage >= 0)); then
    ask forget-changed-corpus --out="$out"
    mapfile -t scripts < <(recipe_scripts)
    for word in "${prepare_options[@]}"; do # of them some name files, as --lm and --g2p=MODEL
        [[ ! -f ${word#--*=} ]] || scripts+=("${word#--*=}")
    done
    run_stage 0 prepare "$out" "${scripts[@]}" makes "$out"/data/{train,dev,test,eval}/text "$out/data/local/lm.arpa" -- \
        python "$(recipe_file prepare.py)" --out "$out" "${prepare_options[@]}"
fi

# Stages 1 and 2: features and alignments, whose scripts have stages of their own. --stage 2 keeps the features of sound
# that are there.
max_skipped=''
if [[ $alignments != @(given|prepared) ]] && ((stage <= 2 && stop_stage >= 1)); then
    max_skipped=${limits[0]}
    gmm_options=(--recipe "${kaldi_sh%/*}" --out "$out" --nj "$nj" ${dim:+--dim "$dim"} ${force:+--force})
fi
if [[ $alignments == kaldi_gmm ]] && ((stage <= 2 && stop_stage >= 1)); then
    gmm=("$root/local/kaldi_gmm.sh" "${gmm_options[@]}")
    run_stage 1 kaldi_features "$out" -- "${gmm[@]}" --stage 1 --stop-stage 1
    run_stage 2 kaldi_language "$out" -- "${gmm[@]}" --stop-stage 0
    run_stage 2 kaldi "$out" -- "${gmm[@]}" --stage 2
fi
if [[ $alignments == gmm ]] && ((stage <= 2 && stop_stage >= 1)); then
    gmm=("$root/local/gmm.sh" "${gmm_options[@]}" --config "$recipe_dir/config.yaml" ${max_skipped:+--max-skipped "$max_skipped"})
    run_stage 1 features "$out" -- "${gmm[@]}" --stage 1 --stop-stage 1
    run_stage 2 language "$out" -- "${gmm[@]}" --stop-stage 0
    run_stage 2 gmm "$out" -- "${gmm[@]}" --stage 2
fi
if [[ $alignments == without_gmm ]]; then # whatever the stage, as it adds to the configuration
    # shellcheck source=/dev/null
    . "$(recipe_file without_kaldi.sh)"
fi
if [[ $features == fbank ]]; then # beside the features of the GMMs
    # shellcheck source=local/filter_banks.sh
    . "$root/local/filter_banks.sh"
fi

# Stage 3, before hours of training: what stages 3 to 7 would lack, for all systems.
if ((stage <= 3 && stop_stage >= 3)); then
    for line in "${systems[@]}"; do
        IFS=$'\t' read -r recogniser system file <<<"$line"
        run_stage 3 doctor "$out/$system" -- bayes-asr doctor "${configuration[@]}" ${file:+"$file"} "${config[@]}" \
            --set=data.dir="$(quoted "${kaldi_dir:-$out}")" "${set[@]/#/--set=}" --until "$((stop_stage < 7 ? stop_stage : 7))" --out "$out"
    done
fi

for line in "${systems[@]}"; do
    IFS=$'\t' read -r recogniser system file <<<"$line"
    for ((seed = 1; seed <= seeds; seed++)); do
        run=$out/$system/seed$seed

        # Stage 3: training, which decides itself what is left to do.
        if ((stage <= 3 && stop_stage >= 3)); then
            run_stage 3 train "$run" -- bayes-asr train "${configuration[@]}" ${file:+"$file"} "${config[@]}" \
                --set=data.dir="$(quoted "${kaldi_dir:-$out}")" --set=data.index="$(quoted "$out/index")" --set=seed="$seed" "${set[@]/#/--set=}" \
                ${nproc:+--nproc "$nproc"} --out "$run" ${force:+--new}
        fi

        # What the next stages read, which may be mended when the network is trained; settings of forward, then of decode.
        # shellcheck disable=SC2034  # features_$part is read
        features_dev=() features_test=() graph=() references=() settings=()
        ((stage > 6 || stop_stage < 4)) || learn features_dev=features-dev features_test=features-test graph=graph references=references \
            settings=settings ignored --out="$run"

        # Stages 4 to 6 of a network that classifies utterances.
        if [[ $recogniser == classify ]] && ((stage <= 6 && stop_stage >= 4)); then
            for part in dev test; do
                declare -n features_read=features_$part
                run_stage 4-6 "classify_$part" "$run" "$run"/{config.yaml,best.pt} "${features_read[@]}" "${references[@]}" makes "$run/score_$part.json" -- \
                    bayes-asr classify "$run" --on "$part"
            done
        fi

        # Stages 4 and 5 of a network that writes its labels.
        if [[ $recogniser == generate ]] && ((stage <= 5 && stop_stage >= 4)); then
            for part in dev test; do
                declare -n features_read=features_$part
                run_stage 4-5 "generate_$part" "$run" "$run"/{config.yaml,best.pt} "${features_read[@]}" makes "$run/decode_$part/words.txt" -- \
                    bayes-asr generate "$run" --on "$part"
            done
        fi

        # Stage 4: log-likelihoods.
        if [[ $recogniser == @(decode|forward) ]] && ((stage <= 4 && stop_stage >= 4)); then
            made=loglikes
            [[ $recogniser == decode ]] || made=outputs # numbers, which are the end
            for part in dev test; do
                declare -n features_read=features_$part
                heeds=${settings[0]:-} run_stage 4 "forward_$part" "$run" "$run/best.pt" "${features_read[@]}" makes "$run/forward_$part/$made.ark" -- \
                    bayes-asr forward "$run" --on "$part"
            done
        fi

        # Stage 5: words and lattices.
        if [[ $recogniser == decode ]] && ((stage <= 5 && stop_stage >= 5)); then
            for part in dev test; do
                heeds=${settings[1]:-} run_stage 5 "decode_$part" "$run" "$run/forward_$part/loglikes.ark" "${graph[@]}" makes "$run/decode_$part/words.txt" -- \
                    bayes-asr decode "$run" --on "$part" --nj "$nj"
            done
        fi

        # Stage 6: error rates.
        if [[ $recogniser == @(decode|generate) ]] && ((stage <= 6 && stop_stage >= 6)); then
            run_stage 6 score "$run" "$run"/{config.yaml,decode_{dev,test}/words.txt} "${references[@]}" makes "$run"/score_{dev,test}.json -- \
                bayes-asr score "$run" --nj "$nj"
        fi

        # What the recipe does further with a run, as pronunciation of speechocean762.
        if [[ -f $(recipe_file further.sh) ]]; then
            # shellcheck source=/dev/null
            . "$(recipe_file further.sh)"
        fi
    done
done

# Stage 7: the table of all runs; of an experiment its systems and the GMMs, whose rate they are to beat.
report=
if [[ ${systems[*]} == *@(decode|classify|generate)$'\t'* ]] && ((stage <= 7 && stop_stage >= 7)); then
    compared=("$out") report=$out/report
    if [[ -n $experiment ]]; then
        told=$(ask compared --out="$out")
        mapfile -t compared <<<"$told"
        report=${told#*--out$'\n'} report=${report%%$'\n'*}
        [[ $alignments != gmm ]] || compared=("$out/gmm" "${compared[@]}")
    fi
    run_stage 7 report "$out" -- bayes-asr report "${compared[@]}"
fi

# For people alone: the last lines of standard output are the table.
list_times >&2
if [[ -n $report ]]; then
    {
        [[ -z ${activation:-} ]] || advise "$activation" 'in each new shell, before bayes-asr'
        # Whose features can be made of a new file: not Kaldi's, and not those that a corpus has in place of sound.
        if [[ $recogniser != classify && ($alignments == @(prepared|without_gmm) || $features == fbank ||
            $alignments == gmm && -f $out/data/train/wav.scp) ]]; then
            advise "bayes-asr transcribe $(from_here "$out/$system/seed1") FILE..." 'the words, or phones, of recordings'
        fi
        echo "Open $(from_here "$report/report.html") in a browser"
        [[ ! -f $root/docs/first-steps.md ]] || echo "Further: $(from_here "$root/docs/first-steps.md")"
    } >&2
fi
