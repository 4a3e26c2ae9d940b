#!/bin/sh
# The manual and the completions say what the program says of itself: no option is missing, and none is made up.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

build=$(dirname "$TENURE")
pages=$build/man/pages
bash_completion=$build/completions/tenure

check() {
    exits 0 python3 "$TENURE_SOURCE/tests/lib/manual_check.py" "$@"
}

pages_agree() {
    check pages "$TENURE" "$TENURE_SOURCE/man"
}

# A check that finds nothing is worth nothing: it is shown pages with mistakes.
differences_are_found() {
    cp -r "$TENURE_SOURCE/man" "$CASE/man"
    sed -i 's/^\*--undo\*/*--redo*/' "$CASE/man/tenure-drain.scd"
    sed -i 's/^\*--wait\* _D_/*--wait* _N_/' "$CASE/man/tenure-acquire.scd"
    sed -i 's/Environment: \*TENURE_LISTEN\*//' "$CASE/man/tenure-serve.scd"
    sed -i 's/^\*tenure plan\*/*tenure plan* _WHAT_/' "$CASE/man/tenure-plan.scd"
    rm "$CASE/man/tenure-ls.scd"
    exits 1 python3 "$TENURE_SOURCE/tests/lib/manual_check.py" pages "$TENURE" "$CASE/man"
    out_has 'tenure-drain: the page lacks --undo' 'tenure-drain: the program has no --redo' 'tenure-acquire: --wait is' \
        'tenure-serve: --listen is' 'tenure-plan: SYNOPSIS is' 'the command ls has no page'
}

functions_have_pages() {
    check functions "$TENURE_SOURCE/include/tenure.h" "$pages"
}

# formatted PAGE: as man shows it, where there is one; an error of the formatter is a failure.
pages_are_formatted() {
    command -v groff >/dev/null || {
        echo 'there is no groff to try them with'
        return 0
    }
    for page in "$pages"/*.[17] "$pages"/libtenure*.3; do
        groff -man -Tutf8 -ww "$page" >"$CASE/page" 2>"$CASE/warnings" || fail "$page"
        ! grep -v 'cannot adjust line\|can.t break line' "$CASE/warnings" || fail "$page has warnings"
        [ "$(wc -l <"$CASE/page")" -gt 15 ] || fail "$page is too short"
    done
}

completions_are_complete() {
    check completions "$TENURE" "$bash_completion" "$build/completions/_tenure" "$build/completions/tenure.fish"
}

# completes WORD... EXPECTED: what bash offers for the last WORD, sorted, on one line.
completes() {
    cat >"$CASE/try.bash" <<'END'
. "$1"
expected=${!#}
COMP_WORDS=("${@:2:$#-2}")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_tenure
offered=$(printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' ')
[ "${offered% }" = "$expected" ] || { printf 'offered: %s\nexpected: %s\n' "$offered" "$expected"; exit 1; }
END
    exits 0 bash "$CASE/try.bash" "$bash_completion" "$@"
}

bash_completes() {
    completes tenure re 'release renew resign'
    completes tenure target '' "$(bash -c '. "$1"; _tenure_words target | tr " " "\n" | sort | tr "\n" " "' - "$bash_completion" | sed 's/ $//')"
    completes tenure target re 'resume'
    completes tenure elect role --re '--renew --restart'
    completes tenure elect role --restart '' 'always never on-failure'
    completes tenure status --log-level d 'debug'
    completes tenure drain --f ''
    completes tenure renew job --token '' ''
    completes tenure help dr 'drain'
    # What the store knows: targets and roles.
    ln -sf "$TENURE" "$CASE/tenure"
    PATH=$CASE:$PATH
    exits 0 "$TENURE" target add alpha-1 alpha-2
    exits 0 "$TENURE" once nightly -- true
    completes tenure show al 'alpha-1 alpha-2'
    completes tenure who ni 'nightly'
    completes tenure target rm al 'alpha-1 alpha-2'
    completes tenure ls --namespace '' 'leader poll'
    touch "$CASE/jobs.tab"
    completes tenure cron jo 'jobs.tab'
    touch "$CASE/cert.pem"
    completes tenure serve --tls-cert cer 'cert.pem'
    completes tenure once role -- cer 'cert.pem'
}

shells_accept_them() {
    exits 0 bash -n "$bash_completion"
    for shell in zsh fish; do
        command -v "$shell" >/dev/null || {
            echo "$shell is not there"
            continue
        }
        file=$build/completions/_tenure
        [ "$shell" = zsh ] || file=$build/completions/tenure.fish
        exits 0 "$shell" -n "$file"
    done
}

fish_completes() {
    command -v fish >/dev/null || {
        echo 'fish is not there'
        return 0
    }
    XDG_CONFIG_HOME=$CASE XDG_DATA_HOME=$CASE exits 0 fish --no-config -c \
        "source $build/completions/tenure.fish; complete -C 'tenure elect role --restart '"
    out_has never on-failure always
    out_lacks drain
}

it 'each command has a page, each page a command, and both have the same options, variables, usage and summary' pages_agree
it 'a page that differs from the program is found' differences_are_found
it 'each function of the library has a page' functions_have_pages
it 'the pages can be formatted without a warning' pages_are_formatted
it 'each command and each option is in the completion of each shell' completions_are_complete
it 'bash completes commands, options, words and files' bash_completes
it 'the shells accept their completions' shells_accept_them
it 'fish completes the words of an option' fish_completes
finish
