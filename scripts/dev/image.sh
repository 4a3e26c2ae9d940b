# ./dev image; packaging/image.sh packs.
# shellcheck shell=sh

help_image() {
    cat <<'END'
usage: ./dev image

Builds two container images, as OCI archives, without a container engine: build/images/tenure.tar with everything, and
build/images/tenure-sqlite.tar with the SQLite store alone and without 'serve', MQTT and polls by HTTP.

Options:
  -h, --help   show this text

Examples:
  ./dev image && podman load -i build/images/tenure.tar

Time: three minutes on two cores.
END
}

# pack NAME OPTION...: builds a release with these options, and packs it.
pack() {
    image=$1
    shift
    build_in "$BUILD_ROOT/build-$image" 'tenure:executable' --buildtype=release -Dtests=false -Dbench=false "$@" ||
        die 'the build failed'
    packaging/image.sh "$BUILD_ROOT/build-$image/tenure" "$images/$image.tar" || die "cannot pack $images/$image.tar"
}

cmd_image() {
    parse_options image "$@"
    require build image
    images=$BUILD_ROOT/build/images
    mkdir -p "$images" || die "cannot create $images"
    pack tenure
    pack tenure-sqlite -Dstores=sqlite -Dhttp=disabled -Dmqtt=disabled -Dserver=disabled
}
