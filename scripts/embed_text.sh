#!/bin/sh
# Text files as C strings, each line a literal of its own:
#   embed_text.sh NAME FILE       one string of that name
#   embed_text.sh --page FILE...  the table that page.h declares: name, ETag, text
set -eu

literals() {
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/    "/' -e 's/$/\\n"/' "$1"
}

if [ "$1" != --page ]; then
    printf 'extern const char %s[];\nconst char %s[] =\n' "$1" "$1"
    literals "$2"
    printf ';\n'
    exit 0
fi
shift
printf '#include "server/page.h"\nconst ten_page_file ten_page_files[] = {\n'
for file; do
    printf '{"%s", "\\"%.16s\\"",\n' "${file##*/}" "$(sha256sum <"$file")"
    literals "$file"
    printf '},\n'
done
printf '{0}};\n'
