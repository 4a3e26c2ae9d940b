# What every part of ./dev says things with. Sourced by ./dev and by scripts that run on their own.
# shellcheck shell=sh

say() {
    printf '%s\n' "$*"
}

die() {
    printf 'dev: %s\n' "$*" >&2
    exit 1
}
