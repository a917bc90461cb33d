# shellcheck shell=bash disable=SC2034  # read by local/kaldi_gmm.sh
# As in Kaldi's egs/ami/s5b for individual headsets; phones depend on their position in the word.
sets=(train dev eval)
oov='<unk>'
lang=()
mono_utterances=15000
tri1=(5000 80000)
tri2=(5000 80000)
tri2_ali=(steps/align_fmllr.sh)
tri3=(5000 80000)
decode=(--beam 11.0 --first-beam 8.0)
