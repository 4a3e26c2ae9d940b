#!/bin/sh
# The demo: agents share nine targets; one is killed, another joins, a worker crashes. On a terminal it is a live view
# with keys, until 'q'; elsewhere the same story is told in lines, and ends with a summary. Everything that it shows it
# has read from 'tenure nodes --json', 'tenure status --json' and the messages that the agents publish. Ends with 1 when
# a takeover, the balance or a higher token did not come. Called by ./dev demo with the program to use.
set -u
tenure=${1:?usage: scripts/demo.sh PROGRAM}
target_count=9
names='ada bob cleo dora emil fay gus hal ida jon'
ttl_ms=3000
patience_ms=20000 # for each step; a step takes 5 s at most

live=no
if [ -t 0 ] && [ -t 1 ] && [ "${TERM:-dumb}" != dumb ]; then live=yes; fi
dir=$(mktemp -d) || exit 1
mkdir "$dir/wardens" "$dir/killed"
: >"$dir/story"
: >"$dir/summary"
: >"$dir/polls"
: >"$dir/now"
TENURE_STORE=sqlite:$dir/demo.db
TENURE_NAMESPACE=poll
export TENURE_STORE TENURE_NAMESPACE

# ---- time and words

now_ms() {
    echo $(($(date +%s%N) / 1000000))
}

# seconds MS: as 1.2 s.
seconds() {
    echo "$(($1 / 1000)).$(($1 % 1000 / 100)) s"
}

# say TEXT: a line of the story, with the seconds since its start.
say() {
    line=$(printf '%6s  %s' "$(seconds $(($(now_ms) - start)) | tr -d ' ')" "$*")
    printf '%s\n' "$line" >>"$dir/story"
    [ "$live" = yes ] || printf '%s\n' "$line"
}

# tell: lines of the story from standard input, under the last one said.
tell() {
    sed 's/^/          /' >"$dir/lines"
    cat "$dir/lines" >>"$dir/story"
    [ "$live" = yes ] || cat "$dir/lines"
}

# note TEXT: a line of the summary.
note() {
    printf '%s\n' "  $*" >>"$dir/summary"
}

# ---- processes

# worker_of WARDEN: by /proc alone, because ps and pgrep are not everywhere.
worker_of() {
    for stat in /proc/[0-9]*/stat; do
        { read -r line <"$stat"; } 2>/dev/null || continue
        case $line in
        *"(tenure) "?" $1 "*) echo "${line%% *}" ;;
        esac
    done
}

# start_agent NAME
start_agent() {
    "$tenure" agent --name "$1" --targets store --poll 'exec:date +%T' --every 1s --publish "file:$dir/polls" \
        --ttl "${ttl_ms}ms" --renew 1s --settle 1s </dev/null >>"$dir/$1.log" 2>&1 &
    echo $! >"$dir/wardens/$1"
}

# kill_now NAME PROCESS...: with SIGKILL, in this order; remembers when, and for the live view whom.
kill_now() {
    instance=$(instance_of "$1")
    [ -z "$instance" ] || : >"$dir/killed/$instance"
    shift
    killed_at=$(now_ms)
    kill -KILL "$@" 2>/dev/null
}

# Worker and warden at once, the warden first: it would release the leases.
kill_host() {
    warden=$(cat "$dir/wardens/$1")
    # shellcheck disable=SC2046 # numbers
    kill_now "$1" "$warden" $(worker_of "$warden")
    rm -f "$dir/wardens/$1"
    { wait "$warden"; } 2>/dev/null
}

# The worker alone: its warden lives, and deals with it.
kill_worker() {
    # shellcheck disable=SC2046 # a number
    kill_now "$1" $(worker_of "$(cat "$dir/wardens/$1")")
}

running() {
    ls "$dir/wardens"
}

running_count() {
    running | wc -l
}

# next_name: one that was not used yet.
next_name() {
    for name in $names; do
        [ -e "$dir/$name.log" ] || break
    done
    number=$((number + 1))
    if [ -e "$dir/$name.log" ]; then echo "agent$number"; else echo "$name"; fi
}

# stop_agents: asked first. False: one did not end well.
stop_agents() {
    ended_well=0
    for name in $(running); do kill -TERM "$(cat "$dir/wardens/$name")" 2>/dev/null; done
    for name in $(running); do
        wait "$(cat "$dir/wardens/$name")" || ended_well=1
        rm -f "$dir/wardens/$name"
    done
    return "$ended_well"
}

clean_up() {
    trap '' HUP INT TERM
    leave_screen
    for name in $(running); do
        warden=$(cat "$dir/wardens/$name")
        # shellcheck disable=SC2046 # numbers
        kill -KILL "$warden" $(worker_of "$warden") 2>/dev/null
        { wait "$warden"; } 2>/dev/null
    done
    rm -rf "$dir"
}

# give_up TEXT: what did not come, and what the agents said last.
give_up() {
    leave_screen
    [ "$live" = no ] || cat "$dir/story"
    printf '\nFAILED: %s\n\n' "$*"
    cat "$dir/now"
    tail -n 5 "$dir"/*.log
    exit 1
}

# ---- what the store says

# Makes $dir/now of it: 'node INSTANCE HELD PLANNED REMAINING' and 'target ID HOLDER TOKEN PLANNED REMAINING ACQUIRED',
# where ACQUIRED is in milliseconds of its day, and - is nobody.
look() {
    { "$tenure" nodes --json && "$tenure" status --json; } >"$dir/json" || give_up 'the state of the fleet cannot be read'
    awk '
        function value(key, at, rest) {
            at = index($0, "\"" key "\":")
            if (!at)
                return ""
            rest = substr($0, at + length(key) + 3)
            sub(/^"/, "", rest)
            sub(/[",}].*/, "", rest)
            return rest == "null" ? "-" : rest
        }
        function milliseconds(text, part) {
            if (text == "-")
                return 0
            split(text, part, /[T:Z]/)
            return int((part[2] * 3600 + part[3] * 60 + part[4]) * 1000 + 0.5)
        }
        value("target") == "" { print "node", value("instance"), value("held"), value("planned"), value("remaining_ms"); next }
        {
            print "target", value("target"), value("instance"), value("token"), value("planned"), value("remaining_ms"),
                milliseconds(value("acquired_at"))
        }' "$dir/json" >"$dir/now"
}

# instance_of NAME: of the newest that was called so.
instance_of() {
    awk -v name="$1" '$1 == "node" && index($2, name "-") == 1 { found = $2 } END { print found }' "$dir/now"
}

# held_by INSTANCE: how many targets.
held_by() {
    awk -v instance="$1" '$1 == "target" && $3 == instance { count++ } END { print count + 0 }' "$dir/now"
}

# is_shared COUNT: that many instances are there, hold all targets as planned, and have equally many, or one more.
is_shared() {
    awk -v wanted="$1" -v targets="$target_count" '
        $1 == "node" { nodes++; held[$2] = 0 }
        $1 == "target" && $3 != "-" && $3 == $5 && $3 in held { held[$3]++; all++ }
        END {
            least = targets
            for (node in held) {
                if (held[node] < least) least = held[node]
                if (held[node] > most) most = held[node]
            }
            exit !(nodes == wanted && all == targets && most - least <= 1)
        }' "$dir/now"
}

# Each instance and what it holds.
shares() {
    awk '
        $1 == "node" { order[++count] = $2 }
        $1 == "target" { held[$3] = held[$3] " " $2; bar[$3] = bar[$3] "#" }
        END {
            for (i = 1; i <= count; i++) {
                name = order[i]
                sub(/-[0-9]+-[0-9a-f]+$/, "", name)
                printf "%-6s %-9s%s\n", name, bar[order[i]], held[order[i]]
            }
        }' "$dir/now"
}

# remember: the state before something happens; what follows compares with it.
remember() {
    cp "$dir/now" "$dir/before"
}

# moves: each target that changed hands, with both tokens. False: one of the tokens did not grow.
moves() {
    awk '
        function name(instance) { sub(/-[0-9]+-[0-9a-f]+$/, "", instance); return instance }
        $1 != "target" { next }
        NR == FNR { holder[$2] = $3; token[$2] = $4; next }
        $3 != holder[$2] {
            printf "%-10s %-5s token %d  ->  %-5s token %d\n", $2, name(holder[$2]), token[$2], name($3), $4
            if ($4 <= token[$2])
                bad = 1
        }
        END { exit bad }' "$dir/before" "$dir/now"
}

# took_ms INSTANCE: from the kill until the last target that this instance held before was acquired by another; by the
# times in the store.
took_ms() {
    awk -v instance="$1" -v killed="$killed_at" '
        $1 != "target" { next }
        NR == FNR { lost[$2] = $3 == instance; next }
        lost[$2] && $7 > last { last = $7 }
        END {
            took = (last - killed % 86400000 + 86400000) % 86400000
            print (took > 43200000 ? 0 : took) # a rounded millisecond too early
        }' "$dir/before" "$dir/now"
}

# ---- the story: each stage is looked at again and again until what it waits for has come

# enter STAGE
enter() {
    stage=$1
    entered=$(now_ms)
}

# rested MS: since the stage was entered.
rested() {
    [ $(($(now_ms) - entered)) -ge "$1" ]
}

# check_moves: tells what changed hands.
check_moves() {
    moves >"$dir/moves" || give_up 'a token did not grow when its target changed hands'
    tell <"$dir/moves"
}

begin() {
    say "$target_count targets are registered; ada, bob and cleo start"
    for name in ada bob cleo; do start_agent "$name"; done
    enter sharing
}

stage_sharing() {
    is_shared 3 || return 0
    say 'each target has one holder, and the shares differ by at most one:'
    shares | tell
    note "three agents shared $target_count targets, each within one of the others"
    enter shared
}

stage_shared() {
    rested 2500 || return 0
    remember
    victim=$(instance_of bob)
    held=$(held_by "$victim")
    kill_host bob
    look
    left_ms=$(awk -v instance="$victim" '$1 == "target" && $3 == instance && $6 > most { most = $6 } END { print most + 0 }' "$dir/now")
    say "SIGKILL to bob, worker and warden at once, as when a host dies: nobody releases its leases"
    say "his $held leases last for another $(seconds "$left_ms"); until then no other agent can take his targets"
    enter takeover
}

stage_takeover() {
    [ "$(held_by "$victim")" -eq 0 ] && is_shared 2 || return 0
    took=$(took_ms "$victim")
    say "taken over, $(seconds "$took") after the kill, when his leases (TTL $(seconds "$ttl_ms")) had expired:"
    check_moves
    note "host killed: bob's $held targets were taken over $(seconds "$took") after the kill, with higher tokens (TTL $(seconds "$ttl_ms"))"
    enter taken_over
}

stage_taken_over() {
    rested 2500 || return 0
    remember
    start_agent dora
    say 'dora joins'
    enter joining
}

stage_joining() {
    is_shared 3 || return 0
    took=$(($(now_ms) - entered))
    say "balanced again, $(seconds "$took") after her start (an instance must be there for 1 s before it gets targets):"
    check_moves
    shares | tell
    note "join: $(wc -l <"$dir/moves") of $target_count targets moved, $(grep -c -- '->  dora' "$dir/moves") of them to dora, $(seconds "$took") after her start"
    enter balanced
}

stage_balanced() {
    rested 2500 || return 0
    remember
    victim=$(instance_of ada)
    held=$(held_by "$victim")
    kill_worker ada
    say "SIGKILL to ada's worker alone: her warden is alive, ends what she started, and releases her leases"
    enter crash
}

stage_crash() {
    [ "$(held_by "$victim")" -eq 0 ] && [ "$(held_by -)" -eq 0 ] || return 0
    took=$(took_ms "$victim")
    moves >"$dir/moves" || give_up 'a token did not grow when its target changed hands'
    say "her $held targets were taken over $took ms after the kill; no lease had to expire"
    note "worker killed: ada's $held targets were taken over $took ms after the kill, without waiting for a lease to expire"
    enter restart
}

stage_restart() {
    is_shared 3 || return 0
    say "her warden has started a new worker, which is a new instance and has its share again:"
    shares | tell
    note "restart: ada's warden started a new worker, and the targets were balanced again"
    if [ "$live" = yes ]; then
        say "that was the story; now try it yourself with the keys below"
        enter yours
    else
        enter told
    fi
}

stage_told() {
    rested 1000 || return 0
    finished=yes
}

# The user's own kills and joins; 'waiting' is what the fleet is recovering from.
stage_yours() {
    [ -n "$waiting" ] && is_shared "$(running_count)" || return 0
    moves >"$dir/moves" || give_up 'a token did not grow when its target changed hands'
    say "$waiting: balanced again, $(seconds $(($(now_ms) - acted))) later; $(wc -l <"$dir/moves") targets changed hands"
    waiting=
}

# One look at the fleet, and one at the stage.
advance() {
    look
    "stage_$stage"
    if [ "$stage" != yours ] || [ -n "$waiting" ]; then
        ! rested "$patience_ms" || give_up "what the stage '$stage' waits for did not come in $(seconds "$patience_ms")"
    fi
}

# ---- the keys of the live view

# act TEXT: from now on the user decides what happens.
act() {
    remember
    waiting=$1
    acted=$(now_ms)
    enter yours
}

# fullest: the running agent that holds most.
fullest() {
    for name in $(running); do
        echo "$(held_by "$(instance_of "$name")") $name"
    done | sort -k1,1nr -s | sed -n '1s/.* //p'
}

on_key() {
    case $1 in
    q | Q) finished=yes ;;
    a) name=$(next_name) && act "$name joined" && start_agent "$name" && say "$name joins" ;;
    k | w)
        name=$(fullest)
        [ -n "$name" ] || return 0
        act "$name was killed"
        if [ "$1" = k ]; then
            kill_host "$name"
            say "SIGKILL to $name, worker and warden at once, as when a host dies"
        else
            kill_worker "$name"
            say "SIGKILL to $name's worker alone"
        fi
        # Nobody is left to take anything over.
        [ "$(running_count)" -gt 0 ] || waiting=
        ;;
    esac
}

# ---- the screen

enter_screen() {
    terminal=$(stty -g)
    stty -icanon -echo min 0 time 2
    # The other screen, no cursor, no wrapping.
    printf '\033[?1049h\033[?25l\033[?7l'
}

leave_screen() {
    [ -n "$terminal" ] || return 0
    stty "$terminal"
    printf '\033[?7h\033[?25h\033[?1049l'
    terminal=
}

draw() {
    rows=$(stty size | cut -d ' ' -f 1)
    tail -n 300 "$dir/polls" | sed -n 's/^{"target":"\([^"]*\)".*"at":"\([^"]*\)".*/poll \1 \2/p' >"$dir/recent"
    find "$dir/killed" -type f -printf 'killed %f\n' >"$dir/gone"
    {
        printf '\033[H'
        awk -v ttl="$ttl_ms" -v rows="${rows:-24}" -v polls="$(wc -l <"$dir/polls")" -v time="$(date -u +%T.%3N)" \
            -v elapsed="$(seconds $(($(now_ms) - start)))" -f "$(dirname "$0")/demo.awk" \
            "$dir/gone" "$dir/recent" "$dir/now" "$dir/story"
        printf '\033[J'
    } >"$dir/frame"
    cat "$dir/frame"
}

# ---- the end

finish() {
    leave_screen
    [ "$live" = no ] || cat "$dir/story"
    polls=$(wc -l <"$dir/polls")
    say 'the others are asked to stop with SIGTERM: they release everything first'
    [ "$live" = no ] || tail -n 1 "$dir/story"
    stop_agents || give_up 'an agent did not end as it should'
    look
    stuck=$((target_count - $(held_by -)))
    # What the dead held runs out by itself.
    [ "$stuck" -eq 0 ] || [ "$stage" = yours ] || [ "$stage" = takeover ] || give_up "$stuck targets are still held"
    stale=$(awk '
        {
            split($0, part, /"target":"|","instance":"|","_version":|,"at"/)
            if (part[4] + 0 < newest[part[2]]) stale++
            else newest[part[2]] = part[4] + 0
        }
        END { print stale + 0 }' "$dir/polls")
    note "polls: $polls, of which $stale came with a token older than one before"
    printf '\nSummary\n'
    cat "$dir/summary"
}

terminal=
number=0
waiting=
acted=0
killed_at=0
finished=no
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
# shellcheck disable=SC2046 # numbers
"$tenure" target add $(seq -f 'target-%g' "$target_count") 2>/dev/null || exit 1
start=$(now_ms)
if [ "$live" = yes ]; then
    enter_screen
else
    cat <<END
Agents share $target_count targets and poll each once a second. A lease of $((ttl_ms / 1000)) s says who may poll a target; its token grows
whenever the target changes hands. The store is a SQLite file in a temporary directory, the agents are real processes,
and what follows is what 'tenure nodes' and 'tenure status' say about them.

END
fi
begin
while [ "$finished" = no ]; do
    advance
    if [ "$live" = yes ]; then
        draw
        on_key "$(dd bs=1 count=1 2>/dev/null)"
    else
        sleep 0.1
    fi
done
finish
