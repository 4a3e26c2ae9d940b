#!/bin/sh
# `tenure serve` among clients that take all that they can get. The cases are in server_budget.py.
PYTHON=/usr/bin/python3
[ -x "$PYTHON" ] || PYTHON=python3
exec "$PYTHON" -I "${TENURE_SOURCE:?}/tests/lib/machine.py" "$PYTHON" "$TENURE_SOURCE/tests/e2e/server_budget.py" "$@"
