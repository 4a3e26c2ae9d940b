# A private mosquitto for the end-to-end tests; sourced after tap.sh and fleet.sh. It listens on the loopback address,
# keeps sessions of subscribers over a restart, and ends with the case, also when the test itself is killed.
# shellcheck shell=sh disable=SC2034 # the ids and URLs are for the tests

PATH=$PATH:/usr/sbin # where Debian has the broker
BROKER_PORT=
BROKER_TRIES=0

# broker_up [LINE...]: starts it with these lines in its configuration, for anybody who comes unless they say otherwise.
broker_up() {
    mkdir -p "$CASE/broker"
    case "$*" in
    *allow_anonymous*) ;;
    *) set -- "$@" 'allow_anonymous true' ;;
    esac
    for broker_line in "$@"; do printf '%s\n' "$broker_line"; done >"$CASE/broker.lines"
    until broker_start "${BROKER_PORT:-$((10000 + $(od -An -N2 -tu2 /dev/urandom) % 22000))}"; do
        BROKER_TRIES=$((BROKER_TRIES + 1))
        [ "$BROKER_TRIES" -lt 10 ] || fail "no mosquitto could be started: $(tail -n 5 "$CASE/broker.err")"
    done
}

# broker_start PORT: 1 when somebody else has the port.
broker_start() {
    {
        echo "listener $1 127.0.0.1"
        cat "$CASE/broker.lines"
        printf '%s\n' 'persistence true' "persistence_location $CASE/broker/" 'autosave_interval 1' 'max_queued_messages 0' \
            'log_dest stderr' 'log_type all' "user $(id -un)"
    } >"$CASE/broker.conf"
    : >"$CASE/broker.err" # what an earlier one said in it is not what this one says
    background broker setpriv --pdeathsig KILL mosquitto -c "$CASE/broker.conf"
    BROKER=$PID
    until_true 10 broker_runs_or_not
    if grep -q 'running$' "$CASE/broker.err"; then
        BROKER_PORT=$1
        return 0
    fi
    wait "$BROKER" 2>/dev/null || :
    return 1
}
broker_runs_or_not() { grep -q 'running$' "$CASE/broker.err" || is_gone "$BROKER"; }

# broker_down: it ends in order, and keeps the sessions.
broker_down() {
    kill -TERM "$BROKER"
    until_true 10 is_gone "$BROKER"
    wait "$BROKER" 2>/dev/null || :
}
broker_again() { broker_start "$BROKER_PORT" || fail "mosquitto could not be started again: $(tail -n 5 "$CASE/broker.err")"; }

# listener TOPIC [OPTION...]: subscribes; a line of listener.out is the QoS, the topic, and the message. The broker keeps
# what comes while it is not connected.
listener() {
    listener_topic=$1
    shift
    background listener setpriv --pdeathsig KILL mosquitto_sub -h 127.0.0.1 -p "$BROKER_PORT" -V mqttv311 -q 1 -c -i listener \
        -t "$listener_topic" -F '%q %t %p' "$@"
    until_true 5 grep -q 'Sending SUBACK to listener' "$CASE/broker.err"
}
# arrived: the messages of listener.out.
arrived() { cut -d ' ' -f 3- "$CASE/listener.out"; }

# certificates: a CA, and the certificates `server` and `client` of it; another CA and a server of that.
certificates() {
    make_ca ca
    make_ca other
    make_certificate ca server 'subjectAltName=IP:127.0.0.1'
    make_certificate ca client 'subjectAltName=DNS:client'
    make_certificate ca elsewhere 'subjectAltName=DNS:elsewhere.example'
}
make_ca() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$1" -keyout "$1.key" -out "$1.pem"
}
# make_certificate CA NAME EXTENSION
make_certificate() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$2" -keyout "$2.key" -out "$2.csr"
    echo "$3" >"$2.ext"
    openssl x509 -req -in "$2.csr" -CA "$1.pem" -CAkey "$1.key" -CAcreateserial -days 2 -extfile "$2.ext" -out "$2.pem"
}
