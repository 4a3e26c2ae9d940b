#!/bin/sh
# Turns files of SQL or Lua into a C header: each part that starts with `-- name: NAME` becomes
# `static const char PREFIX_NAME[]`. Comments stay out of the program, the reader has them in the file.
# usage: embed.sh PREFIX FILE... > HEADER
set -eu
prefix=$1
shift
printf '/* Made by embed.sh; do not edit. */\n'
awk -v prefix="$prefix" '
/^-- name: / { if (open) print ";"; printf "__attribute__((unused)) static const char %s_%s[] =\n", prefix, toupper($3); open = 1; next }
/^[ \t]*--/ || /^[ \t]*$/ { next }
open { gsub(/\\/, "&&"); gsub(/"/, "\\\""); printf "    \"%s\\n\"\n", $0 }
END { if (open) print ";" }' "$@"
