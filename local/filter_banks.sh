# shellcheck shell=bash
# Filter banks of a recipe's sets, for run.sh --features fbank: the network reads them, GMMs have made its alignments.
# Each data-fbank/SET has what data/SET says of utterances, and features of its own.
# run.sh sets the variables, of which $max_skipped may be empty.
: "${out:?}" "${root:?}"

# filter_banks_of DATA DEST [OPTION...]: the features in DEST of the sound that DATA names.
filter_banks_of() {
    local file
    [[ -f $1/wav.scp ]] || fail "$1 has no wav.scp: filter banks are computed of sound, so take other --features"
    mkdir -p "$2"
    for file in "$1"/*; do
        case ${file##*/} in
            feats.* | cmvn.* | frontend.json) ;;
            *) [[ ! -f $file ]] || cp "$file" "$2" ;;
        esac
    done
    exec bayes-asr features --kind fbank "${@:2}" ${max_skipped:+--max-skipped "$max_skipped"} # so that signals reach it
}

configuration+=("$root/conf/fbank.yaml")
# shellcheck disable=SC2030,SC1090,SC1091  # the recipe's sets and dither, not its other settings
mapfile -t settings < <(sets=(train dev test) dither='' && . "$(recipe_file kaldi.sh)" && printf '%s\n' "${dither:+--dither=$dither}" "${sets[@]}")
for set_of_data in "${settings[@]:1}"; do
    from=$out/data/$set_of_data to=$out/data-fbank/$set_of_data
    forget_other_tables "$from" "$to" "$out/log/fbank_$set_of_data.done"
    run_stage 1 "fbank_$set_of_data" "$out" "$from"/{wav.scp,segments,utt2spk,text} makes "$to"/{feats.scp,cmvn.scp,frontend.json} -- \
        filter_banks_of "$from" "$to" ${settings[0]:+"${settings[0]}"}
done
