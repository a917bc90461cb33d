# shellcheck shell=bash
# Stages 1 and 2 without GMMs where nobody marked the phones, for a recipe's without_kaldi.sh: MFCC, the graph of
# dictionary and language model with monophones, and alignments that begin with states of equal lengths. A small network
# learns them and aligns again, a second one learns what came of it.
# $sets are the recipe's names of train, dev and test, $oov is the word that stands for those without pronunciation.
# $pauses, if set, is the probability of a pause between words of the graph, $dither the noise of the MFCC. Where there
# is data/local/dict_align, it aligns text_words.
# The recipe's aligner.yaml describes the small networks, its without_kaldi.yaml what else differs without GMMs.
# run.sh sets the others, of which $configuration grows, and $force and $max_skipped may be empty.
: "${sets[@]:?}" "${oov:?}" "${out:?}" "${nj:?}"

dict=$out/data/local/dict lm=$out/data/local/lm.arpa exp=$out/exp
folders=("${sets[@]/#/"$out/data/"}") text=text lang=$dict train_text=() dev_text=()
if [[ -d ${dict}_align ]]; then
    text=text_words lang=${dict}_align
    train_text=(--text "${folders[0]}/$text") dev_text=(--text "${folders[1]}/$text")
fi
align=(bayes-asr align --oov "$oov" --lang "$lang" ${max_skipped:+--max-skipped "$max_skipped"})
configuration+=("$(recipe_file without_kaldi.yaml)")
if [[ -f ${folders[0]}/wav.scp ]]; then # else the recipe has prepared features itself
    run_stage 1 features "$out" "${folders[@]/%//segments}" "${folders[@]/%//wav.scp}" makes "${folders[@]/%//frontend.json}" -- \
        bayes-asr features "${folders[@]}" ${dither:+--dither "$dither"} ${max_skipped:+--max-skipped "$max_skipped"}
fi
voids=$exp/aligner_first run_stage 2 flat_train "$out" "${folders[0]}"/{"$text",feats.scp} "$lang/lexicon.txt" makes "$exp/flat_ali/ali.1.gz" -- \
    "${align[@]}" --flat --data "${folders[0]}" "${train_text[@]}" --out "$exp/flat_ali"
voids=$exp/aligner_first run_stage 2 flat_dev "$out" "${folders[1]}"/{"$text",feats.scp} "$exp/flat_ali/final.mdl" makes "$exp/flat_ali_dev/ali.1.gz" -- \
    "${align[@]}" --flat --data "${folders[1]}" "${dev_text[@]}" --model "$exp/flat_ali/final.mdl" --out "$exp/flat_ali_dev"
run_stage 2 graph "$out" "$dict/lexicon.txt" "$lm" "$exp/flat_ali/final.mdl" makes "$exp/mono/graph/HCLG.fst" -- \
    bayes-asr graph --lexicon "$dict/lexicon.txt" --lm "$lm" --model "$exp/flat_ali/final.mdl" \
    ${pauses:+--silence-prob "$pauses"} --out "$exp/mono/graph"
learnt=flat_ali
taught=$exp/aligner_realigned # by what the first aligner aligns
for realigned in first_ali realigned_ali; do
    aligner=$exp/aligner_${realigned%_ali}
    run_stage 2 "train_$realigned" "$aligner" -- bayes-asr train "${configuration[@]}" "$(recipe_file aligner.yaml)" \
        --set=data.dir="$(quoted "$out")" ${max_skipped:+--set=data.max_skipped="$max_skipped"} --set=data.train.alignments="[exp/$learnt]" --set=data.dev.alignments="[exp/${learnt}_dev]" \
        --out "$aligner" ${force:+--new}
    for part in train dev; do
        ali=$exp/$realigned text_option=("${train_text[@]}")
        [[ $part == train ]] || ali+=_dev text_option=("${dev_text[@]}")
        voids=$taught run_stage 2 "${realigned}_$part" "$aligner" "$aligner"/{config.yaml,best.pt} makes "$ali/ali.1.gz" -- \
            "${align[@]}" "$aligner" --on "$part" "${text_option[@]}" --nj "$nj" --out "$ali"
    done
    learnt=$realigned taught=''
done
