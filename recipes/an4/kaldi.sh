# shellcheck shell=bash disable=SC2034  # read by local/kaldi_gmm.sh
# Half an hour of speech: fewer Gaussians than elsewhere.
tri1=(2500 15000)
tri2=(2500 15000)
tri3=(2500 15000)
