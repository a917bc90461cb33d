"""The configuration: typed data with a closed vocabulary.

`conf/base.yaml` names every key once, with its default, unit and meaning; `schema` gives types and
ranges; `merge` lays files and `--set a.b=c` over base.yaml; `explain` says what a key means.
"""
