# A private `tenure serve` for the end-to-end tests, as the case's store; sourced after tap.sh and fleet.sh. Its store is
# MANAGER_STORE, or a SQLite file in the case's directory; it ends with the case, also when the test itself is killed.
# shellcheck shell=sh disable=SC2034 # MANAGER is for the tests

MANAGER_PORT=0

# manager_up [OPTION...]: starts it with these options. TENURE_STORE is its URL from then on.
manager_up() {
    for manager_option in "$@"; do printf '%s\n' "$manager_option"; done >"$CASE/manager.options"
    manager_start
    TENURE_STORE=http://127.0.0.1:$MANAGER_PORT
    export TENURE_STORE
    FLEET_STORE=http
}

# manager_start: at the same address with the same options.
manager_start() {
    set --
    while IFS= read -r manager_option; do set -- "$@" "$manager_option"; done <"$CASE/manager.options"
    rm -f "$CASE/manager.out" # the address that the one before has told
    background manager setpriv --pdeathsig KILL "$TENURE" serve --store "${MANAGER_STORE:-sqlite:$CASE/manager.db}" \
        --listen "127.0.0.1:$MANAGER_PORT" "$@"
    MANAGER=$PID
    until_true 20 test -s "$CASE/manager.out"
    MANAGER_PORT=$(sed 's/.*://' "$CASE/manager.out")
}

# manager_down [SIGNAL]
manager_down() {
    kill "-${1:-KILL}" "$MANAGER"
    wait "$MANAGER" 2>/dev/null || :
}
