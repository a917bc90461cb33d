"""Sequences of labels without times, which a decoder with attention writes."""
