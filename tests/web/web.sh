#!/bin/sh
# The web page in a real Chromium. What drives it comes from npm, into the build directory; the cases are in page.mjs.
set -eu
source=${TENURE_SOURCE:?}/tests/web
work=${WEB_WORK:?}
if ! cmp -s "$source/package-lock.json" "$work/package-lock.json" || [ ! -d "$work/node_modules" ]; then
    rm -rf "$work"
    mkdir -p "$work"
    cp "$source/package.json" "$work"
    cp "$source/package-lock.json" "$work/package-lock.json.new"
    mv "$work/package-lock.json.new" "$work/package-lock.json"
    if ! (cd "$work" && npm ci --ignore-scripts --no-audit --no-fund) >"$work/npm.log" 2>&1; then
        printf '1..1\nnot ok 1 - npm installs what drives the browser\n'
        sed 's/^/# /' "$work/npm.log"
        rm -rf "$work/node_modules"
        exit 1
    fi
fi
exec python3 -I "$source/../lib/machine.py" node "$source/page.mjs" "$@"
