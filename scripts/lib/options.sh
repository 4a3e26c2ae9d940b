# Reads the command line of a command of ./dev. The help text is the specification: help_COMMAND prints it, and
#
#   --name          in a line that starts with two blanks is a flag: it sets $name to "yes"
#   --name VALUE    is an option with a value: it sets $name. N is an integer; HOURS, MINUTES, SECONDS may have decimals
#   WORD            below "Arguments:" is an operand that may be given once, and WORD... any number of times
#
# so an option that is not in the help does not exist. A '-' in a name is a '_' in the variable.
# shellcheck shell=sh

# quote WORD: so that eval reads it as one word.
quote() {
    printf "'%s' " "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"
}

# usage_of COMMAND: the first paragraph of its help.
usage_of() {
    "help_$1" | sed '/^$/q' | sed '/^$/d'
}

# misused COMMAND MESSAGE: says what is wrong and how the command is used. Exits with 2.
misused() {
    printf 'dev: %s: %s\n%s\n' "$1" "$2" "$(usage_of "$1")" >&2
    exit 2
}

# value_of COMMAND OPTION: the placeholder of its value; "-" for a flag; nothing for an unknown option.
value_of() {
    "help_$1" | awk -v option="$2" '
        /^  --/ && $1 == option { print $0 ~ /^  --[a-z-]+ [^ ]/ ? $2 : "-"; exit }'
}

# operand_of COMMAND: the placeholder of its operands, if it has any.
operand_of() {
    "help_$1" | sed -n '/^Arguments:/,/^$/s/^  \([A-Z][A-Z.]*\)  .*/\1/p'
}

# check_value COMMAND OPTION PLACEHOLDER VALUE
check_value() {
    case $3 in
    N) printf '%s' "$4" | grep -Eqx '[0-9]{1,18}' || misused "$1" "$2 must be an integer, not '$4'" ;;
    HOURS | MINUTES | SECONDS)
        printf '%s' "$4" | grep -Eqx '[0-9]+([.][0-9]+)?' || misused "$1" "$2 must be a number, not '$4'"
        ;;
    *) [ -n "$4" ] || misused "$1" "$2 needs a value ($3)" ;;
    esac
}

# take_operand COMMAND WORD
take_operand() {
    case $(operand_of "$1") in
    *...) ;;
    '') misused "$1" "unexpected argument '$2'" ;;
    *) [ -z "$OPERANDS" ] || misused "$1" "unexpected argument '$2'; only one is allowed" ;;
    esac
    OPERANDS=$OPERANDS$(quote "$2")
}

# parse_options COMMAND WORD...: sets a variable for each option, and two lists for eval: OPERANDS has the operands,
# OPTIONS has the options as pairs of words, for a program that reads them again.
parse_options() {
    parsed_command=$1
    shift
    OPERANDS=
    OPTIONS=
    while [ $# -gt 0 ]; do
        case $1 in
        --)
            shift
            for word; do take_operand "$parsed_command" "$word"; done
            return
            ;;
        -?*) ;;
        *)
            take_operand "$parsed_command" "$1"
            shift
            continue
            ;;
        esac
        option=${1%%=*}
        placeholder=$(value_of "$parsed_command" "$option")
        variable=$(printf '%s' "${option#--}" | tr - _)
        OPTIONS=$OPTIONS$(quote "$option")
        case $placeholder in
        '') misused "$parsed_command" "unknown option '$1'" ;;
        -)
            [ "$option" = "$1" ] || misused "$parsed_command" "$option takes no value"
            eval "$variable=yes"
            ;;
        *)
            if [ "$option" != "$1" ]; then
                value=${1#*=}
            else
                [ $# -gt 1 ] || misused "$parsed_command" "$option needs a value ($placeholder)"
                value=$2
                shift
            fi
            check_value "$parsed_command" "$option" "$placeholder" "$value"
            eval "$variable=\$value"
            OPTIONS=$OPTIONS$(quote "$value")
            ;;
        esac
        shift
    done
}
