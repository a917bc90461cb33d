"""The stages of a recipe: what run.sh asks before it runs a command.

`options` are those of run.sh, `recipe` is the folder that they name, `checks` refuse what it has no
use for. `preparation` says what stages 0 to 2 run, `systems` what stages 3 to 7 train and compare.
`plan` hands all of it to the shell. `stamps` know which stages are complete.
"""
