# shellcheck shell=bash disable=SC2154  # run.sh sets $recipe_dir, $out, $nj, $force and $configuration, and reads this
# Stages 1 and 2 without Kaldi: MFCC, the graph of dictionary and language model with monophones, and alignments that
# begin with states of equal lengths. A small network learns them and aligns again, a second one learns what came of it.

dict=$out/data/local/dict exp=$out/exp
align=(bayes-asr align --oov '<unk>' --lang "$dict")
configuration+=("$recipe_dir/without_kaldi.yaml")
run_stage 1 features "$out" "$out"/data/{train,dev,eval}/{segments,wav.scp,frontend.json} -- \
    bayes-asr features "$out"/data/{train,dev,eval}
run_stage 2 flat_train "$out" "$out"/data/train/{text,frontend.json} "$dict/lexicon.txt" "$exp/flat_ali/ali.1.gz" -- \
    "${align[@]}" --flat --data "$out/data/train" --out "$exp/flat_ali"
run_stage 2 flat_dev "$out" "$out"/data/dev/{text,frontend.json} "$exp"/{flat_ali/final.mdl,flat_ali_dev/ali.1.gz} -- \
    "${align[@]}" --flat --data "$out/data/dev" --model "$exp/flat_ali/final.mdl" --out "$exp/flat_ali_dev"
run_stage 2 graph "$out" "$dict/lexicon.txt" "$out/data/local/lm.arpa" "$exp"/{flat_ali/final.mdl,mono/graph/HCLG.fst} -- \
    bayes-asr graph --lexicon "$dict/lexicon.txt" --lm "$out/data/local/lm.arpa" --model "$exp/flat_ali/final.mdl" \
    --out "$exp/mono/graph"
learnt=flat_ali
for realigned in first_ali realigned_ali; do
    aligner=$exp/aligner_${realigned%_ali}
    run_stage 2 "train_$realigned" "$aligner" -- bayes-asr train "${configuration[@]}" "$recipe_dir/aligner.yaml" \
        --set=data.dir="$out" --set=data.train.alignments="[exp/$learnt]" --set=data.dev.alignments="[exp/${learnt}_dev]" \
        --out "$aligner" ${force:+--new}
    for part in train dev; do
        ali=$exp/$realigned
        [[ $part == train ]] || ali+=_dev
        run_stage 2 "${realigned}_$part" "$aligner" "$aligner"/{config.yaml,best.pt} "$ali/ali.1.gz" -- \
            "${align[@]}" "$aligner" --on "$part" --nj "$nj" --out "$ali"
    done
    learnt=$realigned
done
