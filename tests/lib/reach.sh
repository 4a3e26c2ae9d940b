# Servers that are out of reach or none, and what must not be seen of a password. Needs tap.sh and fleet.sh.
# shellcheck shell=sh

SECRET=open-sesame-42

# lacks_secret: nothing that was printed so far has the password.
lacks_secret() {
    if grep -rF "$SECRET" "$CASE"/out "$CASE"/err "$CASE"/*.out "$CASE"/*.err 2>/dev/null; then
        fail 'the password was printed'
    fi
}

# refused CODE URL TEXT...: acquire exits with CODE, and with all of the texts on standard error.
refused() {
    refused_code=$1
    refused_url=$2
    shift 2
    begin=$(boot_ms)
    exits "$refused_code" "$TENURE" acquire job --store "$refused_url"
    out_is ''
    err_has "$@"
    lacks_secret
    took 'ms until the refusal' "$(($(boot_ms) - begin))" 0 7000
}

# listener NAME PYTHON-STATEMENTS: a server that accepts connections and runs the statements for each `client`. PORT is
# where; NAME.port has it, too.
listener() {
    background "$1" "$PYTHON" -c '
import socket, sys, threading, time
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(50)
with open(sys.argv[1], "w") as file:
    print(server.getsockname()[1], file=file)
def serve(client):
    exec(sys.argv[2])
    time.sleep(60)
while True:
    client, _ = server.accept()
    threading.Thread(target=serve, args=(client,), daemon=True).start()' "$CASE/$1.port" "$2"
    until_true 5 test -s "$CASE/$1.port"
    PORT=$(cat "$CASE/$1.port")
}

# bounded LEAST MOST COMMAND...: exit code 3 in that time, with the address.
bounded() {
    least=$1
    most=$2
    shift 2
    begin=$(boot_ms)
    exits 3 "$@"
    took 'ms until it gave up' "$(($(boot_ms) - begin))" "$least" "$most"
    err_has "127.0.0.1:$PORT"
}
