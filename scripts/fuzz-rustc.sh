#!/usr/bin/env bash
# Cargo calls this instead of rustc for our own crates: libFuzzer is to see their branches and
# comparisons. The flags are stable ones, so no other compiler is needed; third-party crates are
# compiled as always and shared with other builds.
set -euo pipefail

# What is fuzzed of the product is text that others parse: optimizing the whole of it would take
# longer than a minute with each target gains.
level=1
case " $* " in *" --crate-name app "* | *" --crate-name engine "*) level=0 ;; esac
exec "$@" --cfg fuzzing -C passes=sancov-module \
    -C llvm-args=-sanitizer-coverage-level=4 \
    -C llvm-args=-sanitizer-coverage-inline-8bit-counters \
    -C llvm-args=-sanitizer-coverage-pc-table \
    -C llvm-args=-sanitizer-coverage-trace-compares \
    -C opt-level=$level
