#!/bin/sh
# A text file as a C string: embed_text.sh NAME FILE. Each line becomes a literal of its own.
set -eu
printf 'extern const char %s[];\nconst char %s[] =\n' "$1" "$1"
sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/    "/' -e 's/$/\\n"/' "$2"
printf ';\n'
