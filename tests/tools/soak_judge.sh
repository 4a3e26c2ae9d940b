#!/bin/sh
# The slope test of ./dev soak, on figures that are made up: what leaks is found, what only moves is not. The soak itself takes
# hours, and runs by hand.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

SOAK=$TENURE_SOURCE/tests/lib/soak.py

# figures SERIES SECONDS FORMULA: of the second s, and of r, a number between 0 and 1 that looks random.
figures() {
    awk -v series="$1" -v seconds="$2" "BEGIN { for (s = 0; s < seconds; s++) { r = (s * 7919 % 101) / 101; print s, series, $3 } }" \
        >>"$CASE/figures"
}
leaks() {
    exits 1 python3 "$SOAK" judge "$CASE/figures"
    out_has 'IT LEAKS'
}
flat() { exits 0 python3 "$SOAK" judge "$CASE/figures"; }

slow_descriptors() {
    figures 'a descriptors' 120 '20 + int(s / 20) + 3 * r'
    leaks
}
slow_memory() {
    figures 'a memory' 120 '9000 + 12 * s + 100 * r'
    leaks
}
hours() {
    figures 'a memory' 7200 '9000 + 0.2 * s + 100 * r'
    leaks
}
one_of_many() {
    figures 'a descriptors' 120 '20 + 3 * r'
    figures 'b descriptors' 120 '20 + s / 10'
    figures 'c memory' 120 '9000'
    leaks
    out_has 'b descriptors: '
}
moves() {
    figures 'a descriptors' 120 '20 + 10 * r'
    figures 'a memory' 120 '9000 + 2000 * r'
    flat
}
warm_up() {
    figures 'a descriptors' 120 's < 25 ? s : 25 + r'
    figures 'a memory' 120 's < 25 ? 5000 + 200 * s : 10000'
    flat
}
too_short() {
    figures 'a descriptors' 40 '20'
    exits 1 python3 "$SOAK" judge "$CASE/figures"
    out_has 'proves too little'
}

it 'a descriptor each 20 seconds is found in two minutes, among others that come and go' slow_descriptors
it '12 KiB a second are found in two minutes' slow_memory
it 'a fifth of a KiB a second is found in two hours' hours
it 'one that leaks is found among many that do not' one_of_many
it 'what moves without a direction is flat' moves
it 'what grows in the beginning only is flat' warm_up
it 'a run that is too short is no proof' too_short
finish
