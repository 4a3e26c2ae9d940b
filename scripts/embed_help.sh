#!/bin/sh
# Turns src/cli/help.txt into a C header: for each command the macro TEN_HELP_NAME, which sets the members of its
# ten_command that --help prints. The format is described at the top of the file.
# usage: embed_help.sh FILE > HEADER
set -eu
printf '/* Made by embed_help.sh; do not edit. */\n'
awk '
function quoted(text) { gsub(/\\/, "&&", text); gsub(/"/, "\\\"", text); return "\"" text "\"" }
function put() {
    if (name == "") return
    sub(/\n+$/, "", details)
    gsub(/\\/, "&&", details); gsub(/"/, "\\\"", details); gsub(/\n/, "\\n", details)
    printf "#define TEN_HELP_%s .name = \"%s\", .usage = %s, .summary = %s", name, name, quoted(usage), quoted(summary)
    printf ", .details = %s\n", details == "" ? "NULL" : "\"" details "\""
}
/^#/ { next }
/^== / {
    put()
    name = $2; usage = substr($0, length("== " name " ") + 1); summary = ""; details = ""
    next
}
summary == "" { summary = $0; next }
details == "" && $0 == "" { next }
{ details = details $0 "\n" }
END { put() }' "$1"
