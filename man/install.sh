#!/bin/sh
# Copies the pages of the manual into their sections. Called by 'meson install' with where they are and the manual's
# directory below the prefix.
set -eu
for page in "$1"/*.[1-8]; do
    section=$MESON_INSTALL_DESTDIR_PREFIX/$2/man${page##*.}
    mkdir -p "$section"
    cp "$page" "$section/"
    chmod 644 "$section/${page##*/}"
done
