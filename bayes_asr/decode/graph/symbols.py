"""The symbols that stand beside the words of a language model, as Kaldi calls them."""

EPSILON, BACKOFF, START, END = "<eps>", "#0", "<s>", "</s>"
