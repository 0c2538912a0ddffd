#!/bin/sh
# Run with: sh tests/run.sh. Every tests/*_test.sh is a test; they all run, and one that fails makes the whole fail.
. ./src/slug.sh
failed=0

check() {
    got=$(slug "$1")
    if [ "$got" = "$2" ]; then
        echo "ok      $1"
    else
        echo "FAILED  $1: expected '$2', got '$got'"
        failed=1
    fi
}

for test in tests/*_test.sh; do
    . "./$test"
done
exit $failed
