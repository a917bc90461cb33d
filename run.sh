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
#   --set KEY=VALUE... a value on top of these, may be repeated: --set model.layers=2
#   --out DIR          everything is written below DIR (default: exp/RECIPE)
#   --stage N          first stage (default: 0)
#   --stop-stage N     last stage (default: 7)
#   --nj N             parallel decoding jobs (default: the number of processors)
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
# Results: OUT/CONFIG/seedN/score_{dev,test}.json; the last lines printed are the table of error rates.
# e.g. ./run.sh --recipe timit --corpus /corpora/TIMIT
#      ./run.sh --recipe timit --kaldi-dir ~/kaldi/egs/timit/s5 --seeds 3
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=local/options.sh
. "$root/local/options.sh"
# shellcheck source=local/setup.sh
. "$root/local/setup.sh"
# shellcheck source=local/stages.sh
. "$root/local/stages.sh"

# What read_plan sets:
recipe_dir='' builds_on=() data_dir='' recognisers=() notices=() changed='' prepares='' prepare=() prepared=() kaldi=() gmm=() without_kaldi='' filter_banks=''
max_skipped='' systems=() system_files=() compared=() config=() set=() out='' nj=1 nproc='' seeds=1 force=''
[[ -z ${BAYES_ASR_PYTHON:-} ]] || script='bayes-asr run'
parse_options "$@"
refuse_early "$@"
set_up mini,report
read_plan "$@"
((${#notices[@]} == 0)) || printf '%s\n' "${notices[@]}"

# Stages 0 to 2. What the recipe has no command for, or --kaldi-dir stands for, is empty.
configuration=("$(recipe_file config.yaml)") # to which a without_kaldi.sh may add
[[ -z $changed ]] || { echo "$changed" && rm -f "$out/log/prepare.done"; }
run_stage "$prepares" prepare "$out" "${prepared[@]}" -- "${prepare[@]}"
run_stage 1-2 kaldi "$out" -- "${kaldi[@]}"
if ((${#gmm[@]})); then # --stage 2 keeps the features of sound that are there
    run_stage 1 features "$out" -- "${gmm[@]}" --stage 1 --stop-stage 1
    run_stage 2 language "$out" -- "${gmm[@]}" --stop-stage 0
    run_stage 2 gmm "$out" -- "${gmm[@]}" --stage 2
fi
# shellcheck source=/dev/null
[[ -z $without_kaldi ]] || . "$without_kaldi"
# shellcheck source=local/filter_banks.sh
[[ -z $filter_banks ]] || . "$root/local/filter_banks.sh"

# What stages 3 to 7 will lack is said before hours of training, for all systems.
for i in "${!systems[@]}"; do
    run_stage 3 doctor "$out/${systems[i]}" -- bayes-asr doctor "${configuration[@]}" "${system_files[@]:i:1}" \
        "${config[@]}" --set=data.dir="$data_dir" "${set[@]/#/--set=}" --until "$((stop_stage < 7 ? stop_stage : 7))" --out "$out"
done

# Stages 3 to 7.
for i in "${!systems[@]}"; do
    for ((seed = 1; seed <= seeds; seed++)); do
        run=$out/${systems[i]}/seed$seed
        run_stage 3 train "$run" -- bayes-asr train "${configuration[@]}" "${system_files[@]:i:1}" "${config[@]}" \
            --set=data.dir="$data_dir" --set=data.index="$out/index" --set=seed="$seed" "${set[@]/#/--set=}" \
            ${nproc:+--nproc "$nproc"} --out "$run" ${force:+--new}
        settings=$run/config.yaml
        for part in dev test; do
            loglikes=$run/forward_$part/loglikes.ark words=$run/decode_$part/words.txt
            case ${recognisers[i]} in
                classify)
                    run_stage 4-6 "classify_$part" "$run" "$settings" "$run/best.pt" "$run/score_$part.json" -- \
                        bayes-asr classify "$run" --on "$part"
                    ;;
                generate)
                    run_stage 4-5 "generate_$part" "$run" "$settings" "$run/best.pt" "$words" -- \
                        bayes-asr generate "$run" --on "$part"
                    ;;
                decode)
                    run_stage 4 "forward_$part" "$run" "$settings" "$run/best.pt" "$loglikes" -- \
                        bayes-asr forward "$run" --on "$part"
                    run_stage 5 "decode_$part" "$run" "$settings" "$loglikes" "$words" -- \
                        bayes-asr decode "$run" --on "$part" --nj "$nj"
                    ;;
            esac
        done
        [[ ${recognisers[i]} == classify ]] || run_stage 6 score "$run" "$settings" "$run"/{decode_{dev,test}/words.txt,score_{dev,test}.json} -- \
            bayes-asr score "$run" --nj "$nj"
    done
done
run_stage 7 report "$out" -- bayes-asr report "${compared[@]}"
