#!/bin/sh
# tenure elect and once: mistakes. Each has its exit code and a message that says what to do, and nothing runs.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/elect.sh
. "$TENURE_SOURCE/tests/lib/elect.sh"

# refused COMMAND... -- : 2, and the job did not run.
refused() {
    exits 2 "$TENURE" "$@"
    out_is ''
    [ -n "$ERR" ] || fail 'not a word'
    [ ! -e "$CASE/ran" ] || fail 'the command was run'
}

bad_roles() {
    for verb in elect once; do
        for role in '' '..' 'a/../b' 'a//b' 'a b' 'a
b' "$(printf 'r%.0s' $(seq 300))" 'ä'; do
            refused "$verb" "$role" -- touch "$CASE/ran"
            err_has "role '" 'is not valid: '
        done
        refused "$verb" web --namespace 'a/b' -- touch "$CASE/ran"
        err_has namespace
        refused "$verb" web --namespace tenure -- touch "$CASE/ran"
    done
    refused elect --observe 'a//b'
    nothing_written
}
no_command() {
    for verb in elect once; do
        refused "$verb"
        err_has 'ROLE is missing'
        refused "$verb" web
        err_has command --
        refused "$verb" web --
        err_has command --
        for words in "touch $CASE/ran" "sh -c x" "web"; do
            # shellcheck disable=SC2086 # its words
            refused "$verb" --ttl 10s -- $words
            err_has 'ROLE is missing before --'
        done
        refused "$verb" web other -- touch "$CASE/ran"
        err_has "'other'"
    done
    refused elect --observe
    refused elect --observe web -- touch "$CASE/ran"
    err_has --observe
    nothing_written
}
unknown_options() {
    refused elect web --restrat always -- touch "$CASE/ran"
    err_has restart
    refused once web --atleast 5s -- touch "$CASE/ran"
    err_has at-least
    refused elect web --at-least 5s -- touch "$CASE/ran"
    refused once web --restart always -- touch "$CASE/ran"
    refused elect web --restart sometimes -- touch "$CASE/ran"
    err_has never on-failure always
    refused elect web --pid-namespace maybe -- touch "$CASE/ran"
    err_has auto on off
    refused once web --at-least 5 -- touch "$CASE/ran"
    err_has 5s
    refused once web --wait -- touch "$CASE/ran"
    nothing_written
}
unsafe_times() {
    for verb in elect once; do
        refused "$verb" web --ttl 50ms -- touch "$CASE/ran"
        err_has 100
        refused "$verb" web --ttl 0s -- touch "$CASE/ran"
        refused "$verb" web --ttl -5s -- touch "$CASE/ran"
        refused "$verb" web --ttl 10s --renew 6s -- touch "$CASE/ran"
        err_has renew
        refused "$verb" web --ttl 10s --grace 9s -- touch "$CASE/ran"
        err_has grace
    done
    # The lease that keeps a role lasts for a TTL more, and no lease lasts for more than 366 days.
    for at_least in 400d 366d 18446744073709551615ms; do
        refused once web --at-least "$at_least" -- touch "$CASE/ran"
        err_has at-least
    done
    nothing_written
}
options_of_the_command() {
    exits 0 "$TENURE" elect web --log-level error -- echo --ttl 1ms --restart -- --help
    out_is '--ttl 1ms --restart -- --help'
    exits 0 "$TENURE" once web2 --log-level error -- echo -- -x
    out_is '-- -x'
}
help() {
    for verb in elect once resign; do
        exits 0 "$TENURE" "$verb" --help
        out_has "usage: tenure $verb"
        exits 0 "$TENURE" help "$verb"
        out_has "usage: tenure $verb"
    done
    exits 0 "$TENURE" help
    out_has elect once resign
    nothing_written
}

also 'a role or a namespace that is not valid is 2' bad_roles
also 'without a role or a command it is 2' no_command
also 'an option or a word that is not known is 2, and the right one is told' unknown_options
also 'times that cannot be safe are 2, with the reason' unsafe_times
also 'options after -- belong to the command' options_of_the_command
also 'help' help
gather
finish
