# Another date for single programs, by faketime; sourced after tap.sh. The clock that leases run on (CLOCK_BOOTTIME) stays
# as it is, as it does when somebody sets the date.
# shellcheck shell=sh

# clock_of OFFSET: the words to put before a command. Sanitizers want to be the first library; faketime is before them. Its
# own program would refuse to start when a process of the same id was killed before, and left its semaphore behind.
clock_of() {
    echo "env FAKETIME=$1 FAKETIME_DONT_FAKE_MONOTONIC=1 DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1" \
        "LD_PRELOAD=$(ls /usr/lib/*/faketime/libfaketime.so.1)" \
        "ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0"
}
# at OFFSET COMMAND...: with another date.
at() {
    faketime_words=$(clock_of "$1")
    shift
    # shellcheck disable=SC2086
    $faketime_words "$@"
}
