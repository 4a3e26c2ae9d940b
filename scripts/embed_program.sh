#!/bin/sh
# A file of any kind as a C array:
#   embed_program.sh NAME [FILE]  `const unsigned char NAME[]`, and its size as NAME_size; without a file, of size 0
set -eu
printf 'extern const unsigned char %s[];\nextern const unsigned %s_size;\nconst unsigned char %s[] = {\n' "$1" "$1" "$1"
od -An -v -tu1 "${2:-/dev/null}" | sed -e 's/  */,/g' -e 's/^,//' -e 's/$/,/'
printf '0};\nconst unsigned %s_size = sizeof %s - 1;\n' "$1" "$1"
