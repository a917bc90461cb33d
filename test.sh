#!/usr/bin/env bash
# Checks everything: style, types, shell scripts and tests. The first call makes the Python environment.
#
# usage: ./test.sh [--no-style] [--slow] [pytest options]
#
# Without --slow the fast tests run, with it all that need neither Kaldi's programs nor a GPU. --no-style leaves out
# style and types. What follows goes to pytest: ./test.sh -k scan, or ./test.sh -m kaldi where KALDI_ROOT is set.
# Real speech is looked for in BAYES_ASR_DATA (default: ../shared/data); tests that need it skip where it is absent.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=local/setup.sh
. "$root/local/setup.sh"

# check_style: of Python, which takes a second.
check_style() {
    ruff check
    ruff format --check
}

# start_types: types and the style of the scripts, beside the tests; what they say goes to files at $said.
start_types() {
    said=$(mktemp -d)
    mypy &>"$said/types" &
    types=$!
    check_scripts &>"$said/scripts" &
    scripts=$!
    trap 'kill "$types" "$scripts" 2>/dev/null || true; rm -r "$said"' EXIT
    trap 'exit 130' INT # which what runs beside does not hear
}

# end_types: show what they said; fails if one of them has failed.
end_types() {
    local failed=0
    wait "$types" || failed=1
    wait "$scripts" || failed=1
    cat "$said"/*
    return "$failed"
}

# check_scripts: the style of the scripts.
check_scripts() {
    local scripts
    mapfile -t scripts < <(grep -lrE '^#!.*\b(ba)?sh$' run.sh test.sh .ci local recipes)
    if command -v shellcheck >/dev/null; then
        shellcheck --external-sources "${scripts[@]}" local/*.sh recipes/*/*.sh
    else
        echo "shellcheck is not installed: the scripts are not checked"
    fi
}

tests=() style=true
while true; do
    case ${1:-} in
        --help | -h) sed -n '2,${/^#/!q;s/^# \{0,1\}//p;}' "$0" && exit ;;
        --slow) tests=(-m 'not kaldi and not gpu') ;;
        --no-style) style='' ;;
        *) break ;;
    esac
    shift
done
set_up mini,report,test

cd "$root"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
if [[ -n $style ]]; then
    check_style
    start_types
fi
# Tests sync thousands of small files, which takes no time in memory.
if [[ -z ${TMPDIR:-} && -w /dev/shm ]] && (($(df -Pk /dev/shm | awk 'END { print $4 }') > 4000000)); then
    export TMPDIR=/dev/shm
fi
# What pytest compiles of the tests it keeps: they are collected in half of the time.
unset PYTHONDONTWRITEBYTECODE
# One process for each processor: torch gets one thread (above), and most tests are single-threaded anyway.
outcome=passed failed=0
pytest --numprocesses auto --maxprocesses 8 --dist worksteal "${tests[@]}" "$@" || outcome=failed failed=$?
if [[ -n $style ]]; then
    types_outcome=passed
    end_types || types_outcome=failed failed=1
    echo "Tests: $outcome. Types and scripts: $types_outcome."
fi
exit "$failed"
