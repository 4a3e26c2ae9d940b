#!/bin/sh
# Turns a file of named statements into a C header: each part that starts with `-- name: NAME` becomes
# `static const char SQL_NAME[]`. Comments stay out of the program, the reader has them in the file.
# usage: embed.sh PREFIX FILE > HEADER
set -eu
prefix=$1
printf '/* Made from %s; do not edit. */\n' "${2##*/}"
awk -v prefix="$prefix" '
/^-- name: / { if (open) print ";"; printf "__attribute__((unused)) static const char %s_%s[] =\n", prefix, toupper($3); open = 1; next }
/^[ \t]*--/ || /^[ \t]*$/ { next }
open { gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); printf "    \"%s\\n\"\n", $0 }
END { if (open) print ";" }' "$2"
