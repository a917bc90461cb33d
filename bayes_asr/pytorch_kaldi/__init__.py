"""What pytorch-kaldi's users bring: its configurations and its networks. Nothing is executed."""
