#!/bin/sh
# The Python binding on Debian's own python3, on SQLite and on Redis; and that its structures are those of the header.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"

python=/usr/bin/python3
[ -x "$python" ] || python=python3
TENURE_LIBRARY=$(dirname "$TENURE")/libtenure.so
PYTHONPATH=$TENURE_SOURCE/bindings/python
PYTHONDONTWRITEBYTECODE=1
export TENURE TENURE_LIBRARY PYTHONPATH PYTHONDONTWRITEBYTECODE

tests_pass() {
    exits 0 "$python" "$TENURE_SOURCE/bindings/python/tests/test_tenure.py"
    printf '%s\n' "$ERR" | grep -q '^Ran 3[3-9] tests\|^Ran [4-9][0-9] tests' || fail 'tests are missing'
}

on_redis() {
    redis_up
    # Each test has names of its own: a namespace that is new would wait for a TTL.
    TENURE_STORE="redis://127.0.0.1:$REDIS_PORT?fresh=1"
    tests_pass
}

# A field that was added to the header and not to the binding would shift all that follow it.
structures_agree() {
    cat >"$CASE/describe.py" <<'END'
from tenure import _native
STRUCTURES = {
    "tenure_options": _native.Options, "tenure_info": _native.InfoStruct, "tenure_event": _native.EventStruct,
    "tenure_member_info": _native.MemberInfoStruct, "tenure_member_options": _native.MemberOptions,
    "tenure_election_options": _native.ElectionOptions, "tenure_guard_options": _native.GuardOptions,
}
import ctypes, sys
if sys.argv[1] == "c":
    print("#include <stddef.h>\n#include <stdio.h>\n#include <tenure.h>\nint main(void) {")
for name, structure in STRUCTURES.items():
    for field, kind in structure._fields_:
        if sys.argv[1] == "c":
            print(f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));')
        else:
            print(f"{name}.{field} {getattr(structure, field).offset}")
    print(f'printf("{name} %zu\\n", sizeof({name}));' if sys.argv[1] == "c" else f"{name} {ctypes.sizeof(structure)}")
if sys.argv[1] == "c":
    print("return 0; }")
END
    "$python" "$CASE/describe.py" c >"$CASE/describe.c"
    exits 0 "${CC:-cc}" -I "$TENURE_SOURCE/include" -o "$CASE/describe" "$CASE/describe.c"
    "$CASE/describe" >"$CASE/header"
    "$python" "$CASE/describe.py" python >"$CASE/binding"
    diff -u "$CASE/header" "$CASE/binding"
    [ "$(wc -l <"$CASE/header")" -gt 50 ] || fail 'few fields were compared'
}

types_are_right() {
    command -v mypy >/dev/null || {
        echo 'there is no mypy'
        return 0
    }
    exits 0 mypy --strict --cache-dir "$CASE/mypy" "$TENURE_SOURCE/bindings/python/tenure"
}

library_is_missing() {
    TENURE_LIBRARY=$CASE/nothing.so
    exits 1 "$python" -c 'import tenure'
    err_has 'ImportError: libtenure cannot be loaded' 'TENURE_LIBRARY'
}

# ---- the example: one fleet of a member in C and one in Python

share_of() { "$TENURE" ls --json | grep -c "\"instance\":\"$1-" || :; }
shares_are() { [ "$(share_of carla)" -eq "$1" ] && [ "$(share_of pia)" -eq "$2" ]; }

members_share() {
    example=$TENURE_SOURCE/examples/worker.py
    background pia "$python" "$example" "$TENURE_STORE" pia 2 a b c d e f
    pia=$PID
    until_true 20 shares_are 0 6
    until_true 20 grep -q 'pia: worked on f under token 1' "$CASE/pia.out"
    # The first rebalance takes half of it away while it works; it goes on with the other half.
    background carla "${TENURE_EXAMPLES:?}/worker" "$TENURE_STORE" carla 2000 a b c d e f
    carla=$PID
    until_true 20 shares_are 3 3
    until_true 20 grep -q 'carla: worked on . under token 2' "$CASE/carla.out"
    # The second gives it back.
    kill -s KILL "$carla"
    until_true 20 shares_are 0 6
    until_true 20 grep -q 'pia: worked on . under token 3' "$CASE/pia.out"
    kill -s TERM "$pia"
    ended 0 "$pia"
    same 'the last line' "$(tail -n 1 "$CASE/pia.out")" 'pia: stopped'
    same 'targets that are held' "$(share_of pia)" 0
    exits 1 "$python" "$example" nonsense pia 2 a
    err_has "'nonsense' is not valid"
}

it 'leases, elections, fleets, guards and asyncio work from Python on SQLite' tests_pass
it 'and on Redis' on_redis
it 'a fleet member in Python and one in C share targets, through two rebalances' members_share
it 'the structures of the binding are those of the header' structures_agree
it 'mypy finds nothing' types_are_right
it 'a library that cannot be found is an error that says what to do' library_is_missing
finish
