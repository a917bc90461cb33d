"""Configurations and networks of pytorch-kaldi, translated. Nothing of theirs is executed."""
