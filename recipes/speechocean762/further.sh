# shellcheck shell=bash disable=SC2154  # run.sh sets what this reads
# The goodness of pronunciation against the experts' scores, where the clone has them: read by run.sh behind stage 6.
if [[ -d $out/data/local/dict_align && -n $(find "$corpus"/{,resource/}scores.json "$corpus/resource/utt2score" 2>/dev/null) && $system != *_phones ]]; then
    for part in train dev test; do
        run_stage 6 "pronunciation_$part" "$run" "$run"/{config.yaml,best.pt} "$out/data/$part"/{feats.scp,text_words} makes "$run/pronunciation_$part/gop.txt" -- \
            bayes-asr pronunciation "$run" --on "$part" --text "$out/data/$part/text_words" \
            --lang "$out/data/local/dict_align" --oov '<UNK>' --nj "$nj"
    done
    run_stage 6 experts "$run" "$run"/pronunciation_{train,dev,test}/gop.txt -- \
        python "$(recipe_file against_experts.py)" "$run" --data "$out/data" --corpus "$corpus"
fi
