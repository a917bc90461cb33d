# shellcheck shell=bash
# Stages 1 and 2 with --features mfcc: MFCC; alignments from the hand-marked times and the graph of a phone bigram; then a
# small network is trained on these alignments and aligns the transcripts anew.
# run.sh sets these, and $configuration, which grows; $force may be empty.
: "${out:?}" "${nj:?}"

aligner=$out/exp/aligner
configuration+=("$(recipe_file without_kaldi.yaml)")
run_stage 1 features "$out" "$out"/data/{train,dev,test}/{utt2spk,wav.scp} makes "$out"/data/{train,dev,test}/frontend.json -- \
    bayes-asr features "$out"/data/{train,dev,test}
voids=$aligner run_stage 2 alignments "$out" "$out"/data/{train,dev,test}/{phones.ctm,frontend.json} "$out"/data/local/lm.arpa \
    makes "$out"/exp/{marks_ali{,_dev,_test}/final.mdl,marks/graph/HCLG.fst} -- \
    python "$(recipe_file align.py)" --out "$out"
run_stage 2 aligner "$aligner" -- bayes-asr train "${configuration[@]}" "$(recipe_file aligner.yaml)" \
    --set=data.dir="$(quoted "$out")" --out "$aligner" ${force:+--new}
for part in train dev; do
    realigned=$out/exp/realigned_ali
    [[ $part == train ]] || realigned+=_$part
    run_stage 2 "realign_$part" "$aligner" "$aligner"/{config.yaml,best.pt} makes "$realigned/ali.1.gz" -- \
        bayes-asr align "$aligner" --on "$part" --nj "$nj" --out "$realigned"
done
