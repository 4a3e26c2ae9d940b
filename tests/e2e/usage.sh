#!/bin/sh
# What a person meets first: help, and being told what was wrong. Wrong usage exits 2, says which value broke which rule,
# and writes nothing.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

commands='acquire renew release show ls target watch elect once resign doctor version help'

# ---- help

help_lists_commands() {
    exits 0 "$TENURE" "$@"
    for command in $commands; do
        printf '%s\n' "$OUT" | grep -q "^  $command  *[A-Z]" || fail "the list has no $command"
    done
    same 'standard error' "$ERR" ''
    nothing_written
}

no_command() {
    exits 2 "$TENURE"
    out_has 'usage: tenure COMMAND'
}

help_of_each() {
    for command in $commands; do
        exits 0 "$TENURE" "$command" --help
        out_has "tenure"
        [ "$command" = help ] || out_has "usage: tenure $command" '--store URL' 'TENURE_STORE'
        flag=$OUT
        exits 0 "$TENURE" help "$command"
        [ "$command" = help ] || same "help of $command" "$OUT" "$flag"
        exits 0 "$TENURE" "$command" -h
    done
    nothing_written
}

help_beats_mistakes() {
    exits 0 "$TENURE" acquire --wait nonsense 'bad id' --help
    out_has 'usage: tenure acquire'
}

version() {
    exits 0 "$TENURE" version
    out_has 'tenure 0.' 'sqlite'
    first=$OUT
    exits 0 "$TENURE" --version
    out_is "$first"
    exits 0 "$TENURE" version --json
    all_json
    out_has '"version":"0.'
}

# ---- mistakes

unknown_command() {
    refuses "the command comes first|the option '--store' after it" --store sqlite:jobs.db show job-1
    refuses "no command 'acqire'|did you mean 'acquire'?" acqire job-1
    refuses "no command 'frobnicate'|'tenure help' lists them" frobnicate
    refuses "no command 'shwo'|did you mean 'show'?" help shwo
    refuses "no command '\\x1b[31mX'|'tenure help' lists them" "$(printf '\033[31mX')"
    refuses "the option '-\\x1b[31mX' after it" "-$(printf '\033[31mX')"
}

unknown_option() {
    refuses "no option '--wiat'|did you mean '--wait'?" acquire job-1 --wiat 5s
    refuses "no option '--tokn=1'|did you mean '--token'?" renew job-1 --tokn=1
    refuses "no option '-x'" ls -x
    refuses "no option '--zzzzzzzz'" ls --zzzzzzzz
}

unknown_verb() {
    refuses "unknown verb 'remove'|did you mean 'rm'?" target remove x
    refuses "unknown verb 'delete'|did you mean 'rm'?" target delete x
    refuses "no command 'poll'|did you mean 'agent'?" poll
    refuses "unknown verb 'ad'|did you mean 'add'?" target ad x
    refuses 'target needs a verb' target
    refuses 'needs at least one id' target add
}

missing_values() {
    refuses '--wait needs a value' acquire job-1 --wait
    refuses '--json takes no value' ls --json=yes
    refuses 'acquire takes one target id' acquire
    refuses 'acquire takes one target id' acquire a b
    refuses 'renew takes one target id' renew --token 1
    refuses "needs the lease's token" renew job-1
    refuses "needs the lease's token" release job-1
    refuses '--now goes with --force' release job-1 --token 1 --now
    refuses 'leave out --token' release job-1 --token 1 --force
    refuses 'show takes one target id' show
    refuses 'exclude each other' ls --held --free
    refuses 'ls takes no arguments' ls job-1
    refuses 'watch takes no arguments' watch job-1
    refuses 'doctor takes no arguments' doctor job-1
}

bad_targets() {
    for verb in acquire show 'release --force' 'renew --token 1' 'target add' 'target rm'; do
        {
            refuses "target 'a b'|made of A-Z" $verb 'a b'
            refuses "target ''|1 to 255 bytes" $verb ''
            refuses "target 'a/../b'|'..'" $verb a/../b
            refuses "target '..'" $verb ..
            refuses "target 'a//b'|empty" $verb a//b
            refuses "target '/a'" $verb /a
        }
    done
    refuses "target '%2e%2e'|made of A-Z" acquire '%2e%2e'
    refuses "target 'a\\x0ab'|made of A-Z" acquire 'a
b'
    refuses "target 'a\\xff\\xfe'" acquire "$(printf 'a\377\376')"
    refuses "target '\\x1b[31mred'" acquire "$(printf '\033[31mred')"
    refuses "target 'x'; DROP TABLE lease; --'" acquire "x'; DROP TABLE lease; --"
    refuses '1 to 255 bytes' acquire "$(printf '%0256d' 0)"
}

longest_target() {
    exits 0 "$TENURE" acquire "$(printf '%0255d' 0)"
    out_is 1
    exits 0 "$TENURE" acquire 'A-z0.9_~:@+-/b'
}

bad_namespaces() {
    refuses "namespace 'a/b'|made of A-Z" acquire job-1 --namespace a/b
    refuses "namespace 'tenure'|kept for Tenure" acquire job-1 --namespace tenure
    refuses '1 to 63 bytes' acquire job-1 --namespace "$(printf '%064d' 0)"
    refuses "namespace ''|1 to 63 bytes" acquire job-1 --namespace ''
    refuses "instance name 'a b'|made of A-Z" acquire job-1 --name 'a b'
}

bad_durations() {
    refuses "--wait: duration '5' has no unit|5s" acquire job-1 --wait 5
    refuses "--wait: '5 s' is not a duration" acquire job-1 --wait '5 s'
    refuses "--wait: '-5s' is not a duration" acquire job-1 --wait=-5s
    refuses "--wait: '1.5s'" acquire job-1 --wait 1.5s
    refuses "--wait: 'NaN' is not a duration" acquire job-1 --wait NaN
    refuses "'99999999999999999999s' is too large" acquire job-1 --wait 99999999999999999999s
}

bad_ttls() {
    refuses 'TTL of 99ms is too short|100ms' acquire job-1 --ttl 99ms
    refuses "--ttl: '0s' is too short" acquire job-1 --ttl 0s
    refuses "--renew: '0ms' is too short" acquire job-1 --renew 0ms
    refuses 'too long|366 days' acquire job-1 --ttl 367d
    refuses "--ttl: '-1s' is not a duration" acquire job-1 --ttl=-1s
    refuses 'margin of 5ms is too short' acquire job-1 --margin 5ms
    refuses 'more than half' acquire job-1 --ttl 10s --margin 6s
    refuses 'renewing every 5.0s cannot be safe with a TTL of 10.0s' acquire job-1 --ttl 10s --renew 5s
}

bad_tokens() {
    for token in 0 -1 1.5 abc '' 9007199254740992 99999999999999999999; do
        refuses "token '$token'|whole number from 1 to 9007199254740991" renew job-1 "--token=$token"
        refuses "token '$token'" release job-1 --token "$token"
    done
}

bad_choices() {
    refuses "--log-level: 'loud' is not one of error, warn, info, debug" ls --log-level loud
    refuses "--log-format: 'xml' is not one of text, json" ls --log-format xml
    refuses '--spec is not JSON' target add a --spec '{'
    refuses '--poll is missing: exec:CMD, http' agent --targets store
    refuses '--targets is missing: store, file:PATH' agent --poll http
    refuses "role 'r r' is not valid: it is made of A-Z a-z 0-9" resign 'r r' --from x
    refuses "go with 'target add'" target rm a --url http://localhost/
}

bad_urls() {
    refuses "'nonsense' is not valid|starts with a scheme" ls --store nonsense
    refuses "no store 'sqlte:'|did you mean 'sqlite:'?" ls --store "sqlte:$CASE/x.db"
    refuses "no store 'mongodb:'" ls --store mongodb://localhost
    refuses "has no option 'timeot'|did you mean 'timeout'?" ls --store "sqlite:$CASE/x.db?timeot=1s"
    refuses "'%'|two hexadecimal digits" ls --store "sqlite:$CASE/x%zz.db"
    refuses 'memory: lives inside one process|sqlite:PATH' acquire job-1 --store memory:x
}

# An unset variable of a script must not mean the default store, which is this host's alone.
empty_store() {
    for command in 'acquire job-1' 'ls' 'elect web' 'once web' 'agent --poll http' 'guard' 'serve --listen 127.0.0.1:0' 'status'; do
        work=''
        case $command in elect* | once*) work='-- true' ;; esac
        # shellcheck disable=SC2086 # words
        exits 2 "$TENURE" $command --store '' $work
        err_has '--store is empty'
    done
    unset TENURE_STORE
    TENURE_STORE='' exits 0 "$TENURE" ls
}

password_is_hidden() {
    exits 2 "$TENURE" ls --store 'foo://user:hunter2@host/%zz'
    case $ERR in
    *hunter2*) fail 'the password is in the message' ;;
    esac
}

# ---- roles: what runs a command

bad_roles() {
    for verb in elect once; do
        for role in '' '..' 'a/../b' 'a//b' 'a b' 'a
b' "$(printf 'r%.0s' $(seq 300))" 'ä'; do
            refuses "role '|is not valid: " "$verb" "$role" -- touch "$CASE/ran"
        done
        refuses namespace "$verb" web --namespace a/b -- touch "$CASE/ran"
        refuses namespace "$verb" web --namespace tenure -- touch "$CASE/ran"
        refuses 'ROLE is missing' "$verb"
        refuses 'command|--' "$verb" web
        refuses 'command|--' "$verb" web --
        for words in "touch $CASE/ran" 'sh -c x' web; do
            # shellcheck disable=SC2086 # its words
            refuses 'ROLE is missing before --' "$verb" --ttl 10s -- $words
        done
        refuses "'other'" "$verb" web other -- touch "$CASE/ran"
    done
    refuses "'a//b'" elect --observe 'a//b'
    refuses '' elect --observe
    refuses --observe elect --observe web -- touch "$CASE/ran"
}

bad_options_of_roles() {
    refuses restart elect web --restrat always -- touch "$CASE/ran"
    refuses at-least once web --atleast 5s -- touch "$CASE/ran"
    refuses '' elect web --at-least 5s -- touch "$CASE/ran"
    refuses '' once web --restart always -- touch "$CASE/ran"
    refuses 'never|on-failure|always' elect web --restart sometimes -- touch "$CASE/ran"
    refuses 'auto|on|off' elect web --pid-namespace maybe -- touch "$CASE/ran"
    refuses 5s once web --at-least 5 -- touch "$CASE/ran"
    refuses '' once web --wait -- touch "$CASE/ran"
    for verb in elect once; do
        refuses 100 "$verb" web --ttl 50ms -- touch "$CASE/ran"
        refuses '' "$verb" web --ttl 0s -- touch "$CASE/ran"
        refuses '' "$verb" web --ttl -5s -- touch "$CASE/ran"
        refuses renew "$verb" web --ttl 10s --renew 6s -- touch "$CASE/ran"
        refuses grace "$verb" web --ttl 10s --grace 9s -- touch "$CASE/ran"
    done
    # The lease that keeps a role lasts for a TTL more, and no lease lasts for more than 366 days.
    for at_least in 400d 366d 18446744073709551615ms; do
        refuses at-least once web --at-least "$at_least" -- touch "$CASE/ran"
    done
}

options_of_the_command() {
    exits 0 "$TENURE" elect web --log-level error -- echo --ttl 1ms --restart -- --help
    out_is '--ttl 1ms --restart -- --help'
    exits 0 "$TENURE" once web2 --log-level error -- echo -- -x
    out_is '-- -x'
}

it 'tenure --help lists the commands' help_lists_commands --help
it 'tenure help does the same' help_lists_commands help
it 'without a command the help is printed and the exit code is 2' no_command
it 'every command has a help, by --help, by -h and by tenure help COMMAND' help_of_each
it '--help helps although the rest of the line is wrong' help_beats_mistakes
it 'the version names the stores of the build' version
it 'an unknown command is refused with a suggestion' unknown_command
it 'an unknown option is refused with a suggestion' unknown_option
it 'an unknown verb of target is refused with a suggestion' unknown_verb
it 'a missing or superfluous argument is refused with the usage' missing_values
it 'a bad target id is refused by every command before anything is written' bad_targets
it 'a target id may have 255 bytes and every allowed character' longest_target
it 'a bad namespace or instance name is refused before anything is written' bad_namespaces
it 'a bad duration is refused with its value and the rule' bad_durations
it 'a TTL, margin or renewal interval that cannot be safe is refused with the reason' bad_ttls
it 'a bad token is refused with its value and the range' bad_tokens
it 'a value that is not among the choices is refused with the choices' bad_choices
it 'a bad store URL is refused with the rule that it breaks' bad_urls
it 'an empty --store is refused, an empty TENURE_STORE is no setting' empty_store
it 'a password in a URL is not printed' password_is_hidden
it 'a role that is not valid, no role and no command are refused, and nothing runs' bad_roles
it 'an option or a time of elect and once that cannot be is refused, and nothing runs' bad_options_of_roles
it 'options after -- belong to the command' options_of_the_command
finish
