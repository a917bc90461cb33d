# shellcheck shell=bash disable=SC2154  # run.sh sets what this reads
# The goodness of pronunciation against the experts' scores, where the clone has them: read by run.sh behind stage 6.
if [[ -d $out/data/local/dict_align && -n $(find "$corpus"/{,resource/}scores.json 2>/dev/null) && $system != *_phones ]]; then
    for part in train dev test; do
        run_stage 6 "align_$part" "$run" "$run"/{config.yaml,best.pt,align_$part/ali.1.gz} -- bayes-asr align "$run" --on "$part" \
            --text "$out/data/$part/text_words" --lang "$out/data/local/dict_align" --oov '<UNK>' --nj "$nj" --out "$run/align_$part"
    done
    run_stage 6 experts "$run" "$run"/align_{train,dev,test}/ali.1.gz -- \
        python "$(recipe_file against_experts.py)" "$run" --corpus "$corpus"
fi
