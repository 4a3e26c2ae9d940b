#!/bin/sh
# Builds in a directory, for run.py: build.sh DIR OPTION... with CC, SOURCE_ROOT and BUILD_ROOT from ./dev. What it
# prints is what went wrong.
set -u
cd "${SOURCE_ROOT:?}" || exit 1
. scripts/lib/output.sh
. scripts/lib/needs.sh
. scripts/lib/build.sh
build_log=
trap 'rm -f "$build_log"' EXIT
trap 'exit 1' HUP INT TERM
directory=$1
shift
build_in "$directory" '' -Dwerror=true "$@"
