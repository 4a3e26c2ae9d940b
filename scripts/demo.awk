# One frame of the demo's live view, from what demo.sh has read: who was killed, the last polls, the fleet, the story.
# Each line ends with "erase the rest", so that a frame replaces the one before without flicker.

function name_of(instance) {
    sub(/-[0-9]+-[0-9a-f]+$/, "", instance)
    return instance
}

# A name keeps its colour.
function coloured(name, text) {
    return "\033[" substr("3233343536929394959691", 2 * index("abcdefghij", substr(name, 1, 1)) + 1, 2) "m" text "\033[0m"
}

function repeat(text, times, made) {
    made = ""
    while (times-- > 0)
        made = made text
    return made
}

function out(text) {
    if (++lines < rows)
        print text "\033[0m\033[K"
}

function milliseconds(text, part) {
    split(text, part, /[T:Z]/)
    return (part[length(text) > 12 ? 2 : 1] * 3600 + part[length(text) > 12 ? 3 : 2] * 60 + part[length(text) > 12 ? 4 : 3]) * 1000
}

$1 == "killed" { killed[$2] = 1; next }
$1 == "poll" { polled[$2] = milliseconds($3); next }
$1 == "node" { nodes[++node_count] = $2; heartbeat[$2] = $5; next }
$1 == "target" { targets[++target_count] = $2; holder[$2] = $3; token[$2] = $4; planned[$2] = $5; left[$2] = $6; held[$3]++; next }
{ story[++story_count] = $0 }

END {
    now = milliseconds(time)
    out(sprintf("\033[1mtenure\033[0m  %d targets, %d instances, %d polls in %s", target_count, node_count, polls, elapsed))
    out("")
    for (i = 1; i <= node_count; i++) {
        instance = nodes[i]
        note = instance in killed ? "\033[31mkilled; its heartbeat ends in " heartbeat[instance] " ms" : "\033[2m" instance
        name = name_of(instance)
        out(coloured(name, sprintf("  %-8s %-9s", name, repeat("#", held[instance]))) sprintf(" %d held  %s", held[instance], note))
    }
    out("")
    out("\033[2m  TARGET     OWNER     TOKEN   LEASE LEFT            LAST POLL")
    for (i = 1; i <= target_count; i++) {
        id = targets[i]
        who = holder[id] == "-" ? "nobody" : name_of(holder[id])
        bar = repeat("=", int(left[id] * 12 / ttl + 0.5))
        age = id in polled ? (now - polled[id] + 86400000) % 86400000 : 0
        if (age > 43200000)
            age = 0
        why = holder[id] in killed ? "\033[31mits holder is dead: the lease must expire first" \
            : holder[id] != "-" && holder[id] != planned[id] ? "\033[33mon its way to " name_of(planned[id]) : ""
        out(sprintf("  %-10s ", id) coloured(who, sprintf("%-9s", who)) sprintf("%6d   ", token[id]) \
            coloured(who, sprintf("%-12s", bar)) sprintf(" %4.1f s   %s  %s", left[id] / 1000,
            id in polled ? sprintf("%4.1f s ago", age / 1000) : "not yet   ", why))
    }
    out("")
    first = story_count - (rows - lines - 3)
    for (i = first < 1 ? 1 : first; i <= story_count; i++)
        out("\033[36m" story[i])
    while (lines < rows - 2)
        out("")
    printf "\033[7m k kill a host   w kill a worker alone   a add an agent   q quit \033[0m\033[K"
}
