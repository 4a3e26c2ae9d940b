# ./dev model; the models are in model, whose README.md describes them.
# shellcheck shell=sh

help_model() {
    cat <<'END'
usage: ./dev model [--quick | --deep | --story NAME]

Searches all states of the models of the protocol, of session leases and of the epoch rule. No promise may be broken;
then one rule after the other is left out, and the search must find which promise that breaks.

Options:
  --quick        leave out the broken rules
  --deep         larger fleets, too
  --story NAME   show step by step how a promise is broken without the rule NAME; model/README.md lists the names
  -h, --help     show this text

Examples:
  ./dev model
  ./dev model --story NO_MARGIN

Time: three minutes on two cores; --deep needs up to 7 GiB of memory and a quarter of an hour.
END
}

# models_with --story NAME: the models that have the rule.
models_with() {
    rule=''
    while [ $# -gt 0 ]; do
        [ "$1" != --story ] || rule=${2:-}
        shift
    done
    found=''
    for model in protocol session epoch; do
        if grep -q "^$rule " "model/$model.sh"; then found="$found $model"; fi
    done
    [ -n "$found" ] || die "there is no rule '$rule'; model/README.md lists the rules"
    printf '%s\n' "$found"
}

cmd_model() {
    parse_options model "$@"
    eval "set -- $OPTIONS"
    require model
    models='protocol session epoch'
    case "$*" in
    *--story*) models=$(models_with "$@") ;;
    esac
    for model in $models; do
        TENURE_SOURCE=$SOURCE_ROOT sh "model/$model.sh" "$@" || return 1
    done
}
