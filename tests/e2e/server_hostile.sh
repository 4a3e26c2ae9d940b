#!/bin/sh
# Some seconds of clients that take all they can get of a server, beside a small fleet. A minute of it, beside twenty agents, is
# ./dev faults --hostile.
PYTHON=/usr/bin/python3
[ -x "$PYTHON" ] || PYTHON=python3
exec "$PYTHON" -I "${TENURE_SOURCE:?}/tests/lib/machine.py" "$PYTHON" "$TENURE_SOURCE/tests/faults/hostile.py" \
    --tenure "${TENURE:?}" --seconds 4 --agents 3 --ttl 15000
