#!/bin/sh
# './dev image' packs the program with all that it needs: what is in the archives runs without this host's files, as an
# unprivileged user and as process 1. No container engine is needed: unshare and chroot take its place.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

images=$TAP_DIR/build/images

packs() {
    exits 0 env BUILD_ROOT="$TAP_DIR" "$TENURE_SOURCE/dev" image
    for image in tenure tenure-sqlite; do [ -f "$images/$image.tar" ] || fail "$image.tar is not there"; done
}

# blob_of LAYOUT DIGEST: the path of a part, after its digest was checked.
blob_of() {
    printf '%s  %s\n' "${2#sha256:}" "$1/blobs/sha256/${2#sha256:}" | sha256sum -c --quiet >&2 || fail "$2 is damaged"
    printf '%s\n' "$1/blobs/sha256/${2#sha256:}"
}

# unpack IMAGE: as an engine does, by index, manifest and layer; ROOT is its root then.
unpack() {
    ROOT=$TAP_DIR/root-$1
    [ ! -d "$ROOT" ] || return 0
    layout=$CASE/layout
    mkdir -p "$layout" "$ROOT"
    tar -xf "$images/$1.tar" -C "$layout"
    manifest=$(blob_of "$layout" "$(sed 's/.*"digest":"\([^"]*\)".*/\1/' "$layout/index.json")")
    config=$(blob_of "$layout" "$(sed 's/.*"config":{[^}]*"digest":"\([^"]*\)".*/\1/' "$manifest")")
    layer=$(blob_of "$layout" "$(sed 's/.*"layers":\[{[^}]*"digest":"\([^"]*\)".*/\1/' "$manifest")")
    same 'the digest of the unpacked layer' "sha256:$(gzip -dc "$layer" | sha256sum | cut -d ' ' -f 1)" \
        "$(sed 's/.*"diff_ids":\["\([^"]*\)".*/\1/' "$config")"
    tar -xzf "$layer" -C "$ROOT"
    python3 -c 'import json, sys; [json.load(open(path)) for path in sys.argv[1:]]' "$layout/index.json" "$manifest" "$config"
}

# What a container engine does: /dev and /proc, the root of the image, and its user. It is process 1 of its namespace.
cat >"$TAP_DIR/enter" <<'END'
root=$1
shift
mount --bind /dev "$root/dev" && mount -t proc proc "$root/proc" &&
    exec chroot --userspec=65534:65534 "$root" /usr/bin/env_of_image "$@"
END
# inside ARGUMENT...: the entry point of the image at ROOT.
inside() {
    unshare --mount --pid --fork --kill-child sh "$TAP_DIR/enter" "$ROOT" "$@"
}
# The environment that the image's configuration sets.
prepare() {
    unpack "$1"
    printf '#!/bin/sh\nunset TENURE_STORE\nPATH=/usr/bin XDG_STATE_HOME=/var/lib exec /usr/bin/tenure "$@"\n' >"$ROOT/usr/bin/env_of_image"
    chmod 755 "$ROOT/usr/bin/env_of_image"
}

runs() {
    prepare "$1"
    exits 0 inside version
    exits 0 inside acquire "job-$1"
    out_is 1
    exits 0 inside once "role-$1" --at-least 0s -- sh -c 'echo ran under $TENURE_TOKEN as $$'
    out_has 'ran under 1'
    # An agent whose polls leave something behind that process 1 has to reap.
    exits 0 inside target add "t-$1"
    background "agent-$1" unshare --mount --pid --fork --kill-child sh "$TAP_DIR/enter" "$ROOT" agent --targets store \
        --poll 'exec:echo polled; sleep 0.1 &' --every 500ms --publish - --settle 100ms
    agent=$PID
    until_true 30 grep -q '"data":"polled' "$CASE/agent-$1.out"
    # unshare passes no signal on: its child is process 1 of the container.
    kill -s TERM "$(ps -o pid= --ppid "$agent")"
    ended 0 "$agent"
}

with_everything() {
    runs tenure
    for url in redis://127.0.0.1:1 postgres://127.0.0.1:1/x etcd://127.0.0.1:1 http://127.0.0.1:1; do
        exits 3 inside ls --store "$url"
    done
    printf 'nightly tz=Europe/Berlin @daily true\n' >"$ROOT/tmp/crontab"
    exits 0 inside cron check /tmp/crontab
}

with_sqlite() {
    runs tenure-sqlite
    exits 1 inside ls --store redis://127.0.0.1:1
    err_has "the store 'redis:' was left out of this build"
}

# size_of IMAGE MOST: in MB, unpacked, which is what a host stores.
size_of() {
    unpack "$1"
    bytes=$(du -sb --exclude=proc "$ROOT" | cut -f 1)
    echo "$1: $((bytes / 100000)) x 100 kB unpacked, $(($(wc -c <"$images/$1.tar") / 100000)) x 100 kB packed"
    [ "$bytes" -le "$(($2 * 1000000))" ] || fail "$1 has over $2 MB"
}
sizes() {
    size_of tenure 40
    size_of tenure-sqlite 15
}

it './dev image packs two images' packs
it 'the image with everything runs: leases, commands, an agent as process 1, every store, time zones' with_everything
it 'the image with SQLite alone runs, and names what was left out' with_sqlite
it 'the images have at most 40 MB and 15 MB' sizes
finish
