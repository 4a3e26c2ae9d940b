#!/bin/sh
# plant.sh SOURCE DIFF OUTPUT: a copy of a core file with its planted bugs. Called by the build.
# No fuzz: a bug that is planted in the wrong place would be worse than a diff that has to be repaired.
source=$1
diff=$2
output=$3

rm -f "$output"
patch --silent --batch --forward --fuzz=0 --reject-file=- --output="$output" "$source" "$diff" && exit 0
rm -f "$output" "$output.orig"
cat >&2 <<END

The planted bugs in ${diff} no longer fit ${source##*/}: the code around them has changed.
Repair them with

    tests/mutants/refresh.sh

which moves them to where they belong now, or says which of them you have to plant again. See tests/mutants/README.md.
END
exit 1
