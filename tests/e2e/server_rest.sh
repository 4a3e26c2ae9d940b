#!/bin/sh
# Every request of `tenure serve`, with its status codes and fields. The cases are in server_rest.py.
PYTHON=/usr/bin/python3
[ -x "$PYTHON" ] || PYTHON=python3
exec "$PYTHON" -I "${TENURE_SOURCE:?}/tests/lib/machine.py" "$PYTHON" "$TENURE_SOURCE/tests/e2e/server_rest.py" "$@"
