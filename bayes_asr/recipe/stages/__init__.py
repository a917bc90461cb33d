"""The stages of a recipe: what run.sh asks of it before and between the commands that it runs.

`options` are those of run.sh, `recipe` is the folder that they name, `checks` refuse what it has no
use for. `preparation` is of stages 0 to 2, `systems` and `configurations` of stages 3 to 7.
`__main__` answers the shell.
"""
