#!/bin/sh
# Turns files of SQL or Lua into a C header: each part that starts with `-- name: NAME` becomes
# `static const char PREFIX_NAME[]`. Comments stay out of the program, the reader has them in the file. A part that starts
# with `-- fragment: NAME` is put where a later line says `-- use: NAME`.
# usage: embed.sh PREFIX FILE... > HEADER
set -eu
prefix=$1
shift
printf '/* Made by embed.sh; do not edit. */\n'
awk -v prefix="$prefix" '
function literal(line) { gsub(/\\/, "&&", line); gsub(/"/, "\\\"", line); return "    \"" line "\\n\"\n" }
/^-- fragment: / { fragment = $3; next }
/^-- use: / { if (!($3 in text)) exit 1; printf "%s", text[$3]; next }
/^-- name: / {
    if (open) print ";"
    printf "__attribute__((unused)) static const char %s_%s[] =\n", prefix, toupper($3)
    open = 1
    fragment = ""
    next
}
/^[ \t]*--/ || /^[ \t]*$/ { next }
fragment { text[fragment] = text[fragment] literal($0); next }
open { printf "%s", literal($0) }
END { if (open) print ";" }' "$@"
