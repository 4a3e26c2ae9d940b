#!/bin/sh
# Packs a program into a container image, an OCI archive, without a container engine: the program, the libraries that it
# needs, a shell for commands, certificates and time zones, all of this host's Debian. Called by ./dev image.
#
#     image.sh PROGRAM ARCHIVE
#
# Load it with 'podman load -i ARCHIVE', or 'skopeo copy oci-archive:ARCHIVE ...'.
set -eu
program=$1
archive=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
root=$work/root

# copy_with_libraries FILE DESTINATION: also the dynamic linker and every library that FILE needs, where the linker looks.
copy_with_libraries() {
    mkdir -p "$root$(dirname "$2")"
    cp -L "$1" "$root$2"
    chmod 755 "$root$2"
    strip "$root$2"
    ldd "$1" | awk '$2 == "=>" { print $3 } $1 ~ "^/" { print $1 }' | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        [ -e "$root$library" ] || cp -L "$library" "$root$library"
    done
}

# A merged /usr, as Debian has it.
mkdir -p "$root/usr/bin" "$root/usr/lib" "$root/usr/lib64" "$root/etc" "$root/proc" "$root/dev" "$root/tmp" "$root/var/lib/tenure"
for directory in bin lib lib64; do ln -s "usr/$directory" "$root/$directory"; done
copy_with_libraries "$program" /usr/bin/tenure
copy_with_libraries /bin/dash /usr/bin/sh
if ldd "$program" | grep -q 'libssl\|libgnutls'; then
    mkdir -p "$root/etc/ssl/certs"
    [ ! -f /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
fi
# For tz= of crontabs; without copies of the same zones.
if [ -d /usr/share/zoneinfo ]; then
    mkdir -p "$root/usr/share"
    cp -r /usr/share/zoneinfo "$root/usr/share/"
    rm -rf "$root/usr/share/zoneinfo/posix" "$root/usr/share/zoneinfo/right"
fi
printf 'root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/var/lib/tenure:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
chmod 1777 "$root/tmp"

# ---- the archive: a layer, its configuration, a manifest and an index, each named by its digest

layout=$work/layout
blobs=$layout/blobs/sha256
mkdir -p "$blobs"
# add_blob FILE: moves it there; prints "digest size".
add_blob() {
    digest=$(sha256sum "$1" | cut -d ' ' -f 1)
    size=$(wc -c <"$1")
    mv "$1" "$blobs/$digest"
    printf '%s %s\n' "$digest" "$size"
}
tar_options='--sort=name --mtime=@0 --numeric-owner --owner=0 --group=0 --format=gnu'
# shellcheck disable=SC2086 # options
tar $tar_options -C "$root" --exclude ./var/lib/tenure -cf "$work/layer.tar" .
tar --mtime=@0 --numeric-owner --owner=65534 --group=65534 --format=gnu -C "$root" -rf "$work/layer.tar" ./var/lib/tenure
unpacked=$(sha256sum "$work/layer.tar" | cut -d ' ' -f 1)
gzip -9 -n "$work/layer.tar"
read -r layer layer_size <<END_OF_BLOB
$(add_blob "$work/layer.tar.gz")
END_OF_BLOB
machine=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
# The warden is process 1: it adopts and reaps what polls leave behind. Without a volume at /var/lib/tenure a SQLite store
# ends with the container.
cat >"$work/config.json" <<END_OF_CONFIG
{"architecture":"$machine","os":"linux","config":{"User":"65534:65534","Entrypoint":["/usr/bin/tenure"],"Cmd":["help"],"Env":["PATH=/usr/bin","XDG_STATE_HOME=/var/lib"],"Volumes":{"/var/lib/tenure":{}}},"rootfs":{"type":"layers","diff_ids":["sha256:$unpacked"]}}
END_OF_CONFIG
read -r config config_size <<END_OF_BLOB
$(add_blob "$work/config.json")
END_OF_BLOB
cat >"$work/manifest.json" <<END_OF_MANIFEST
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:$config","size":$config_size},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:$layer","size":$layer_size}]}
END_OF_MANIFEST
read -r manifest manifest_size <<END_OF_BLOB
$(add_blob "$work/manifest.json")
END_OF_BLOB
printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
cat >"$layout/index.json" <<END_OF_INDEX
{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:$manifest","size":$manifest_size,"annotations":{"org.opencontainers.image.ref.name":"tenure:latest"}}]}
END_OF_INDEX
# shellcheck disable=SC2086 # options
tar $tar_options -C "$layout" -cf "$archive" .
printf '%s: %s MB, %s MB unpacked\n' "$archive" "$(($(wc -c <"$archive") / 1000000))" "$(($(du -sb "$root" | cut -f 1) / 1000000))"
