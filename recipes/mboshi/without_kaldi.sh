# shellcheck shell=bash disable=SC2034  # pauses is read by local/flat_start.sh
# Stages 1 and 2 without Kaldi. Pauses lie between words, so in the graph of phones any phone may have one after it.
sets=(train dev test)
oov='<UNK>' pauses=0.5
# shellcheck source=local/flat_start.sh
. "${root:?}/local/flat_start.sh"
dict=$out/data/local/dict_words lm=$out/data/local/lm_words.arpa
run_stage 2 graph_words "$out" "$dict/lexicon.txt" "$lm" "$exp/flat_ali/final.mdl" makes "$exp/mono/graph_words/HCLG.fst" -- \
    bayes-asr graph --lexicon "$dict/lexicon.txt" --lm "$lm" --model "$exp/flat_ali/final.mdl" --out "$exp/mono/graph_words"
