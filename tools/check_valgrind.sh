#!/bin/sh
# check_valgrind.sh - short runs of the binary under valgrind: no error, no leak. Usage: check_valgrind.sh QUIRE
#
# valgrind emulates no AVX-512, so this takes the AVX2 kernels at best.
set -eu
quire=$1
if ! command -v valgrind >/dev/null; then
    echo "valgrind is not installed"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

watched() {
    if ! valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,indirect \
        --errors-for-leak-kinds=definite,indirect "$quire" "$@" >"$work/out" 2>"$work/err" </dev/null; then
        echo "quire $*"
        cat "$work/out" "$work/err"
        exit 1
    fi
}

watched version
watched plan dummy:tiny-qwen3
watched synth tiny-llama "$work/tiny.gguf" --seed 1
watched complete "$work/tiny.gguf" --prompt-ids 1,2,3,4,5 --max-tokens 8 --temperature 0 --ignore-eos --threads 2
watched complete "$work/tiny.gguf" -p 'ab' --max-tokens 4 --temperature 1 --seed 3 --json
