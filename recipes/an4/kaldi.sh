# shellcheck shell=bash disable=SC2034  # read by local/kaldi_gmm.sh
# 38 minutes of speech: the trees stop growing by themselves at some 500 leaves.
tri1=(1000 8000)
tri2=(1000 8000)
tri3=(1000 8000)
