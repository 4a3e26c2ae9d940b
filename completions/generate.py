"""Makes the completions for bash, zsh and fish from what `tenure help` and `tenure COMMAND --help` print.

Called by meson with the program, then the three files to write. So an option that the program has is completed, and one
that it lost is not. What --help cannot say (that a value is a file, that a word follows `target`) is in the tables here.
"""

import re
import subprocess
import sys

FILES = {"auth-file", "tls-cert", "tls-key", "client-ca"}
WORDS = {"target": ["add", "rm", "pause", "resume", "ls"], "cron": ["ls", "check", "import"]}
LIVE = {  # words that the store knows: of these commands the first column of what `tenure ...` prints
    "nodes": ["drain"],
    "ls": ["show", "owner", "renew", "release", "checkpoint", "history", "forget", "acquire", "move", "target"],
    "ls --namespace leader": ["who", "resign", "elect", "once"],
    "ls --namespace lock": ["lock"],
}
LIVE_OPTIONS = {  # the same for values of options
    "from": "nodes --namespace leader",
    "remove": "nodes",
    "to": "nodes",
    "not": "nodes",
    "namespace": "namespaces",
}
RUNS = {"elect", "once", "lock"}  # what follows -- is a command of its own
TAKES_FILE = {"cron"}
PREFIXES = {  # values that begin with a word of a known set, and go on freely
    "store": ["sqlite:", "redis://", "rediss://", "redis+unix://", "redis+sentinel://", "postgres://", "etcd://", "etcds://",
              "http://", "https://"],
    "targets": ["store", "file:", "redis-keys:", "redis-set:", "http://", "https://"],
    "poll": ["exec:", "http", "spec"],
    "publish": ["-", "file:", "redis-stream:", "redis-channel:", "mqtt://", "mqtts://"],
    "in": ["-", "file:", "mqtt://", "mqtts://"],
    "out": ["-", "file:", "mqtt://", "mqtts://"],
}
OPTION = re.compile(r"^  --([a-z-]+)(?: (\S+))?\s+(.*)$")


def printed(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


def choices(argument, text):
    """`W`, and the F and L of the log: 'never (default), on-failure or always: ...' names the words."""
    if argument not in ("W", "F", "L"):
        return []
    first = re.split(r"[:;]", text)[0].replace(" (default)", "")
    words = re.split(r", | or ", first)
    return words if all(re.fullmatch(r"[a-z-]+", word) for word in words) and len(words) > 1 else []


def read_commands(program):
    commands = []
    for name, summary in re.findall(r"^  ([a-z]+) {2,}(.+)$", printed(program, "help").split("Try it:")[0], re.M):
        options = []
        for line in printed(program, name, "--help").splitlines() if name != "help" else []:
            found = OPTION.match(line)
            if found:
                option, argument, text = found.groups()
                text = re.sub(r" \[TENURE_\w+\]$", "", text)
                options.append((option, argument, text, PREFIXES.get(option) or choices(argument, text)))
        commands.append((name, summary, options))
    return commands


# ---- bash

BASH = r"""# bash completion for tenure; made from its --help.
# shellcheck shell=bash
_tenure_words() {
    case $1 in
@WORDS@
    esac
}

_tenure_values() {
    case $1 in
@VALUES@
    esac
}

# What is in the store that TENURE_STORE names; nothing, if it does not answer soon.
_tenure_live() {
    case $1 in
@LIVE@
@LIVE_OPTIONS@
    *) return ;;
    esac
    timeout 2 tenure "$@" --quiet 2>/dev/null | cut -f 1
}

_tenure() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} i
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W '@COMMANDS@' -- "$current")
        return
    fi
    for ((i = 2; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == -- ]]; then # what follows is a command of its own
            mapfile -t COMPREPLY < <(compgen -A command -A file -- "$current")
            return
        fi
    done
    if [[ $previous == --* ]]; then
        case $previous in
        @FILES@)
            mapfile -t COMPREPLY < <(compgen -A file -- "$current")
            return
            ;;
        @LIVE_VALUED@)
            mapfile -t COMPREPLY < <(compgen -W "$(_tenure_live "$previous")" -- "$current")
            return
            ;;
        @VALUED@)
            # bash takes : for the end of a word: values that have one are completed up to there
            mapfile -t COMPREPLY < <(compgen -W "$(_tenure_values "$previous")" -- "$current")
            return
            ;;
        esac
    fi
    local words
    words=$(_tenure_words "$command")
    [[ $current == -* ]] || words+=" $(_tenure_live "$command")"
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    case $command in
    @TAKES_FILE@)
        if [[ $current != -* ]]; then
            mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -A file -- "$current")
        fi
        ;;
    esac
}
complete -F _tenure tenure
"""


def valued(commands):
    """Every option that takes a value, with its words."""
    found = {}
    for _, _, options in commands:
        for option, argument, _, words in options:
            if argument:
                found[option] = words
    return found


def bash(commands):
    names = " ".join(name for name, _, _ in commands)
    lines = []
    for name, _, options in commands:
        words = WORDS.get(name, []) + [f"--{option}" for option, _, _, _ in options]
        words += [other for other, _, _ in commands] if name == "help" else ["--help"]
        lines.append(f"    {name}) echo '{' '.join(words)}' ;;")
    values = [f"    --{option}) echo '{' '.join(words)}' ;;" for option, words in valued(commands).items() if words]
    live = [f"    {' | '.join(names_of)}) set -- {source} ;;" for source, names_of in LIVE.items()]
    live_options = [f"    --{option}) set -- {source} ;;" for option, source in LIVE_OPTIONS.items()]
    text = BASH
    for mark, found in (("LIVE", "\n".join(live)), ("LIVE_OPTIONS", "\n".join(live_options)), ("COMMANDS", names),
                        ("WORDS", "\n".join(lines)), ("VALUES", "\n".join(values)), ("TAKES_FILE", " | ".join(sorted(TAKES_FILE))),
                        ("LIVE_VALUED", " | ".join(f"--{option}" for option in LIVE_OPTIONS))):
        text = text.replace(f"@{mark}@", found)
    return text.replace("@FILES@", " | ".join(f"--{f}" for f in sorted(FILES))).replace(
        "@VALUED@", " | ".join(f"--{option}" for option in valued(commands) if option not in FILES and option not in LIVE_OPTIONS))


# ---- zsh

def zsh_quote(text):
    return text.replace("'", "'\\''").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def zsh_option(option, argument, text, words):
    value = ""
    if argument:
        kind = "_files" if option in FILES else "(" + " ".join(w.replace(":", "\\:") for w in words) + ")" if words else ""
        if option in LIVE_OPTIONS:
            kind = f" _tenure_live {LIVE_OPTIONS[option]}"
        value = f":{argument}:{kind}"
    return f"'*--{option}[{zsh_quote(text)}]{value}'"


ZSH_LIVE = """# What is in the store that TENURE_STORE names; nothing, if it does not answer soon.
_tenure_live() {
    local -a found
    found=(${(f)"$(timeout 2 tenure "$@" --quiet 2>/dev/null | cut -f 1)"})
    compadd -a found
}
"""


def zsh(commands):
    lines = ["#compdef tenure", "# zsh completion for tenure; made from its --help.", "", ZSH_LIVE, "_tenure() {",
             "    local curcontext=$curcontext state line", "    local -a commands", "    commands=("]
    lines += [f"        '{name}:{zsh_quote(summary)}'" for name, summary, _ in commands]
    lines += ["    )", "    _arguments -C '1: :->command' '*:: :->rest'", "    case $state in",
              "    command) _describe -t commands 'tenure command' commands ;;", "    rest)", "        case $words[1] in"]
    for name, _, options in commands:
        if name == "help":
            lines.append("        help) _describe -t commands 'tenure command' commands ;;")
            continue
        parts = [zsh_option(*option) for option in options] + ["'--help[print the help of the command]'"]
        if name in WORDS:
            parts.append(f"'1: :({' '.join(WORDS[name])})'")
        for source, names_of in LIVE.items():
            if name in names_of:
                parts.append(f"'{'*' if name == 'target' else 1}: : _tenure_live {source}'")
        if name in TAKES_FILE:
            parts.append("'*:file:_files'")
        if name in RUNS:
            parts += ["'*:::command: _normal'"]
        lines.append(f"        {name})")
        lines.append("            _arguments \\")
        lines += [f"                {part} \\" for part in parts[:-1]] + [f"                {parts[-1]}", "            ;;"]
    return "\n".join(lines + ["        esac", "        ;;", "    esac", "}", "", '_tenure "$@"', ""])


# ---- fish

def fish_quote(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish(commands):
    lines = ["# fish completion for tenure; made from its --help.", "complete -c tenure -f"]
    for name, summary, _ in commands:
        lines.append(f"complete -c tenure -n __fish_use_subcommand -a {name} -d {fish_quote(summary)}")
    for name, _, options in commands:
        when = f"complete -c tenure -n '__fish_seen_subcommand_from {name}'"
        if name in WORDS:
            lines.append(f"{when} -a '{' '.join(WORDS[name])}'")
        if name in TAKES_FILE:
            lines.append(f"{when} -F")
        for source, names_of in LIVE.items():
            if name in names_of:
                lines.append(f"{when} -a '(timeout 2 tenure {source} --quiet 2>/dev/null | cut -f 1)'")
        for option, argument, text, words in options:
            value = ""
            if argument:
                if option in LIVE_OPTIONS:
                    words = [f"(timeout 2 tenure {LIVE_OPTIONS[option]} --quiet 2>/dev/null | cut -f 1)"]
                value = " -r -F" if option in FILES else f" -x -a '{' '.join(words)}'" if words else " -x"
            lines.append(f"{when} -l {option}{value} -d {fish_quote(text)}")
        if name == "help":
            lines.append(f"{when} -a '{' '.join(other for other, _, _ in commands)}'")
        else:
            lines.append(f"{when} -l help -d 'print the help of the command'")
    return "\n".join(lines) + "\n"


def main():
    program, *outputs = sys.argv[1:]
    commands = read_commands(program)
    for make, path in zip((bash, zsh, fish), outputs):
        with open(path, "w", encoding="utf-8") as file:
            file.write(make(commands))


main()
