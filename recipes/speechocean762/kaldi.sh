# shellcheck shell=bash disable=SC2034  # read by local/kaldi_gmm.sh
# 2.6 hours of speech.
tri1=(2000 10000)
decode=(--beam 12 --lattice-beam 6 --max-active 5000)
