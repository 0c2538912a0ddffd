#!/bin/sh
# Run with: sh test.sh
. ./slug.sh
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

check "Hello World" "hello-world"
check "Rust & Shell" "rust-shell"
check "  many   spaces  " "many-spaces"
check "What's new in 2.0?" "what-s-new-in-2-0"

exit $failed
