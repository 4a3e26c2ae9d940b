#!/bin/sh
# Malformed HTTP over a socket against `tenure serve`. The corpus is in tests/lib/http_corpus.py.
PYTHON=/usr/bin/python3
[ -x "$PYTHON" ] || PYTHON=python3
exec "$PYTHON" -I "${TENURE_SOURCE:?}/tests/lib/machine.py" "$PYTHON" "$TENURE_SOURCE/tests/lib/http_corpus.py" "$@"
