#!/bin/sh
# The Kubernetes manifests, as far as they can be shown without a cluster: the program takes their arguments and files, and no
# container has more rights than it needs, or a secret in a variable or an argument.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

MANIFESTS=$TENURE_SOURCE/packaging/kubernetes

# container FILE NAME: the lines of one container.
container() {
    awk -v name="$2" '
        $1 == "-" && $2 == "name:" && /^        - name:/ { on = $3 == name }
        /^      [a-z]/ { on = 0 }
        on' "$1"
}
# words FILE NAME: its arguments, one a line.
words() {
    container "$1" "$2" | tr '\n' ' ' | sed 's/.*\(args\|command\): \[\([^]]*\)\].*/\2/' | tr ',' '\n' |
        sed 's/^ *//; s/ *$//; s/^"\(.*\)"$/\1/'
}
store() { container "$1" "$2" | sed -n 's/^ *value: \(.*\)$/\1/p'; }

is_restricted() {
    for file in "$MANIFESTS"/*.yaml; do
        ! grep -n 'kind: Secret\|stringData\|secretKeyRef' "$file" || fail "$file: secrets are made apart, and come as files"
        ! grep -nE '(redis|postgres)s?://[^ /?]*:[^ /?@]*@' "$file" || fail "$file: a password in a URL"
        for name in $(sed -n 's/^        - name: \([a-z]*\).*/\1/p' "$file"); do
            container "$file" "$name" | grep -q 'image:' || continue
            for line in 'allowPrivilegeEscalation: false' 'readOnlyRootFilesystem: true' 'drop: \[ALL\]' 'memory:'; do
                container "$file" "$name" | grep -q "$line" || fail "$file: $name lacks $line"
            done
        done
        same "$file: pods" "$(grep -c 'runAsNonRoot: true' "$file")" "$(grep -c 'kind: Deployment' "$file")"
        same "$file: tokens" "$(grep -c 'automountServiceAccountToken: false' "$file")" "$(grep -c 'kind: Deployment' "$file")"
    done
}

# The command line of the manifest with files, a port and a store of this test.
serve_takes_its_arguments() {
    mkdir "$CASE/files"
    printf 'boss admin * * %s\n' "$(printf secret | sha256sum | cut -d ' ' -f 1)" >"$CASE/files/auth"
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=tenure -addext subjectAltName=DNS:tenure \
        -keyout "$CASE/files/tls.key" -out "$CASE/files/tls.crt" 2>/dev/null
    chmod 440 "$CASE/files"/*
    words=$(words "$MANIFESTS/deployment.yaml" serve | sed "s#/run/secrets/tenure-serve#$CASE/files#; s#0.0.0.0:7480#0.0.0.0:0#")
    # shellcheck disable=SC2086
    background serve "$TENURE" $words
    until_true 20 grep -q . "$CASE/serve.out"
    port=$(sed 's/.*://' "$CASE/serve.out")
    code=$(curl -s -o "$CASE/answer" -w '%{http_code}' --cacert "$CASE/files/tls.crt" \
        --connect-to "tenure:7480:127.0.0.1:$port" -H 'Authorization: Bearer secret' https://tenure:7480/api/v1/poll)
    same 'the answer by the name of the service' "$code" 200
    kill -TERM "$PID"
    ended 0 "$PID"
}

# Stores are not there, but their URLs and the files in them are understood.
stores_are_understood() {
    mkdir "$CASE/files"
    echo secret >"$CASE/files/password"
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout "$CASE/files/key" -out "$CASE/files/ca.pem" 2>/dev/null
    for pair in deployment:agent deployment:serve sidecar:cleanup sidecar:observer; do
        url=$(store "$MANIFESTS/${pair%:*}.yaml" "${pair#*:}" |
            sed "s#/run/secrets/tenure/#$CASE/files/#g; s#@redis:6379#@127.0.0.1:1#; s#@postgres/#@127.0.0.1:1/#")
        [ -n "$url" ] || fail "$pair: no store"
        exits 3 "$TENURE" ls --store "$url&timeout=1s"
    done
}

agents_take_their_arguments() {
    words=$(words "$MANIFESTS/deployment.yaml" agent)
    # shellcheck disable=SC2086
    background agent "$TENURE" $words --settle 100ms
    until_true 20 "$TENURE" nodes
    until_true 20 has_instance
    kill -TERM "$PID"
    ended 0 "$PID"
    words=$(words "$MANIFESTS/sidecar.yaml" cleanup | sed "s#^/tenure/tenure\$#$TENURE#; s#^/usr/local/bin/cleanup\$#true#; s#^always\$#never#")
    # shellcheck disable=SC2086
    exits 0 $words
    words=$(words "$MANIFESTS/sidecar.yaml" observer)
    # shellcheck disable=SC2086
    background observer "$TENURE" $words
    until_true 20 grep -q . "$CASE/observer.out"
    kill -TERM "$PID"
}
has_instance() { "$TENURE" nodes | grep -q .; }

it 'no container has more than it needs, and no secret is in a variable or an argument' is_restricted
it 'serve takes the arguments and files of its manifest, and answers to the name of the service' serve_takes_its_arguments
it 'the URLs of the stores are understood, with their files' stores_are_understood
it 'agent, elect and the observer take the arguments of their manifests' agents_take_their_arguments
finish
