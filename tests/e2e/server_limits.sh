#!/bin/sh
# `tenure serve` under pressure and at its borders. The cases are in server_limits.py.
PYTHON=/usr/bin/python3
[ -x "$PYTHON" ] || PYTHON=python3
exec "$PYTHON" -I "${TENURE_SOURCE:?}/tests/lib/machine.py" "$PYTHON" "$TENURE_SOURCE/tests/e2e/server_limits.py" "$@"
