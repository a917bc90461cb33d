# shellcheck shell=bash disable=SC2034  # read by local/kaldi_gmm.sh
# As in Kaldi's egs/timit/s5: silence is a word, and the only one without a phone of its own.
oov=sil
lang=(--sil-prob 0.0 --position-dependent-phones false --num-sil-states 3)
mono_ali=(steps/align_si.sh --boost-silence 1.25)
wip=(0.0)
