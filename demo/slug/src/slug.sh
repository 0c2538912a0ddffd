#!/bin/sh
# Turns a title into a slug: lower case, words joined by single dashes.

slug() {
    printf '%s' "$1" |
        tr '[:upper:]' '[:lower:]' |
        tr -c 'a-z0-9' '-'
}
