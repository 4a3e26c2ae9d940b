#!/bin/sh
# README.md as it is printed: its shell blocks, except for the one with ./dev, run one after the other in one shell.
# What the commands do in every case is tested elsewhere; this is about what a reader types first.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

README=$TENURE_SOURCE/README.md

# blocks: all shell blocks but those that call ./dev.
blocks() {
    awk '
        $0 == "```" { if (inside && block !~ /\.\/dev/) printf "%s", block; inside = 0 }
        inside { block = block $0 "\n" }
        $0 == "```sh" { inside = 1; block = "" }' "$README"
}

as_printed() {
    ln -s "$(dirname "$TENURE")" build
    mkdir scratch
    TMPDIR=$CASE/scratch
    export TMPDIR
    # Nothing may come from the test's own environment.
    unset TENURE_STORE
    blocks >blocks.sh
    for command in lock elect once agent; do
        grep -q "tenure $command " blocks.sh || fail "no block has tenure $command"
    done
    exits 0 sh -eu blocks.sh
    out_has 'backup runs under token 1' 'held by another: exit status 4' 'a semaphore: slot ' \
        'report under token 1' 'done already: exit status 4' session-1 session-4
    out_lacks 'not reached'
    same 'how many have led' "$(printf '%s\n' "$OUT" | grep -c 'leading under token')" 3
    same 'their tokens' "$(printf '%s\n' "$OUT" | sed -n 's/leading under token //p' | sort -u | wc -l)" 3
    case $ERR in *level=error*) fail 'there are errors in the log' ;; esac
}

links_lead_somewhere() {
    for page in "$README" "$TENURE_SOURCE"/docs/*.md "$TENURE_SOURCE"/docs/stores/*.md; do
        grep -o '](\([^)#:]*\)[)#]' "$page" | sed 's/^](//; s/[)#]$//' | grep . | sort -u | while read -r link; do
            [ -e "$(dirname "$page")/$link" ] || fail "$page links to $link, which is not there"
        done
    done
}

short_enough() {
    words=$(wc -w <"$README")
    between 'words of README.md' "$words" 1 1200
    same 'lines over 120 columns' "$(awk 'length($0) > 120' "$README")" ''
}

it 'the blocks of README run as they are printed' as_printed
it 'README has at most 1,200 words, and no line over 120 columns' short_enough
it 'links between the documents lead to files' links_lead_somewhere
finish
