#!/bin/sh
# run_fuzz.sh - runs a fuzz target: first its corpus, then changes of it for some seconds.
#
#   tools/run_fuzz.sh ROOT NAME SECONDS     ROOT/fuzz-NAME on tests/fuzz/corpus/NAME
#
# An input that breaks it is left in ROOT/fuzz-found/NAME; put it into the corpus as crash-WHAT once it is mended. Exit
# status 77: the target was not built, as there is no clang here that could link it.
set -eu
root=$1 name=$2 seconds=$3
cd "$(dirname "$0")/.."
if [ ! -x "$root/fuzz-$name" ]; then
    echo "no clang with its run time libraries (tools/deps.sh test installs them): nothing is fuzzed"
    exit 77
fi
found=$root/fuzz-found/$name
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
mkdir -p "$found"
"$root/fuzz-$name" -max_total_time="$seconds" -max_len=8192 -timeout=60 -malloc_limit_mb=512 -rss_limit_mb=2048 \
    -dict="tests/fuzz/dict/$name.dict" -artifact_prefix="$found/" -print_final_stats=1 "$new" "tests/fuzz/corpus/$name" \
    >"$new.log" 2>&1 || { tail -n 60 "$new.log"; rm -f "$new.log"; exit 1; }
grep 'stat::number_of_executed_units' "$new.log"
rm -f "$new.log"
