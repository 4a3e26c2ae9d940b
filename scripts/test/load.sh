#!/bin/sh
# A load beside tests: builds the library and the program again and again, with a job for each core and one more, until
# it is ended. load.sh DIR, with a build directory of its own. Called by run.py for './dev test --load'.
set -u
directory=$1
[ -f "$directory/build.ninja" ] || meson setup "$directory" "${SOURCE_ROOT:?}" -Dtests=false -Dbench=false || exit 1
while :; do
    ninja -C "$directory" clean || exit 1
    ninja -C "$directory" -j $(($(nproc) + 1)) || exit 1
done
