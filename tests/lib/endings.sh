# Users and programs for the end-to-end tests of endings; sourced after elect.sh. Only root can make them: has_users.
# shellcheck shell=sh disable=SC2034 # UNDER and POLLER are for elect.sh

FORBID=${FORBID:?the path of forbid}
ENDINGS_USER=61234 # of nobody

# The other user cannot enter a build in the home directory of root: it runs copies of the programs then.
if [ "$(id -u)" -eq 0 ] && chmod 755 "$TAP_DIR" &&
    ! setpriv --reuid="$ENDINGS_USER" --clear-groups sh -c '[ -x "$0" ]' "$TENURE"; then
    cp "$TENURE" "$POLLER" "$FORBID" "$TAP_DIR"
    TENURE=$TAP_DIR/${TENURE##*/}
    POLLER=$TAP_DIR/${POLLER##*/}
    FORBID=$TAP_DIR/${FORBID##*/}
fi

# A copy of a program works as a set-uid one in the directory of the tests, and another user can enter it.
has_users() {
    [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null && chmod 755 "$TAP_DIR" &&
        ! findmnt -no OPTIONS -T "$TAP_DIR" | grep -qw nosuid &&
        setpriv --reuid="$ENDINGS_USER" --regid="$ENDINGS_USER" --clear-groups "$TENURE" version >/dev/null
}

# as_user [OPTION...]: from here on candidates run as an ordinary user, to whom the case's directory and store belong.
as_user() {
    UNDER="setpriv --reuid=$ENDINGS_USER --regid=$ENDINGS_USER --clear-groups $*"
    chown -R "$ENDINGS_USER" "$CASE"
    rm -f "$CASE"/store.db*
    chmod 666 "$LOG"
    # shellcheck disable=SC2086
    $UNDER env HOME="$CASE/home" "$TENURE" target add made --namespace made >"$CASE/made" 2>&1 ||
        fail "the other user cannot make a store: $(cat "$CASE/made")"
}

# set_uid_poller: from here on commands run a copy of the poller that belongs to root and has the set-uid bit; with the
# option `root` it becomes root altogether.
set_uid_poller() {
    cp "$POLLER" "$CASE/poller"
    POLLER=$CASE/poller
    chown 0:0 "$POLLER"
    chmod 6755 "$POLLER"
}

# capable_poller: the same with a file capability, as ping has.
capable_poller() {
    cp "$POLLER" "$CASE/poller"
    POLLER=$CASE/poller
    chmod 755 "$POLLER"
    setcap cap_net_raw+ep "$POLLER"
}
