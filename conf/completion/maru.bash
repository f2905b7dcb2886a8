# Completion of maru, maructl, marutop and maru-bench for bash. Commands and options are taken from the program's own
# --help, so that they are those of the version that is installed.

# _maru_help PROGRAM [COMMAND...]: what it takes there, a line each: "command NAME" or "option NAME PLACEHOLDER".
_maru_help() {
    "$@" --help 2> /dev/null | awk '
        /^[A-Z][a-z]*:$/ { section = $1; next }
        section == "Subcommands:" && /^  [a-z]/ { print "command", $1 }
        section == "Options:" && /^  -/ {
            placeholder = match($0, /^  [^ ]+ [^ ]/) ? $2 : ""
            count = split($1, names, ",")
            for (i = 1; i <= count; i++) print "option", names[i], placeholder
        }'
}

_maru() {
    local word=${COMP_WORDS[COMP_CWORD]} path=("${COMP_WORDS[0]}") help kind name placeholder values= index
    COMPREPLY=()
    help=$(_maru_help "${path[@]}")
    for ((index = 1; index < COMP_CWORD; index++)); do
        [[ -n "$values" ]] && values= && continue
        if [[ ${COMP_WORDS[index]} == -* ]]; then
            while read -r kind name placeholder; do
                [[ $kind == option && $name == "${COMP_WORDS[index]}" ]] && values=$placeholder
            done <<< "$help"
        elif [[ $'\n'$help$'\n' =~ $'\n'"command ${COMP_WORDS[index]}"$'\n' ]]; then
            path+=("${COMP_WORDS[index]}")
            help=$(_maru_help "${path[@]}")
        fi
    done
    local words=()
    if [[ -n "$values" ]]; then
        [[ $values == FILE || $values == PATH ]] && mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
    fi
    while read -r kind name placeholder; do
        [[ $kind == command || ($kind == option && $word == -*) ]] && words+=("$name")
    done <<< "$help"
    mapfile -t COMPREPLY < <(compgen -W "${words[*]}" -- "$word")
    # Arguments that are files.
    if [[ $word != -* && (${path[1]:-} == put || (${path[1]:-} == device && -n ${path[2]:-})) ]]; then
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$word")
    fi
}
complete -o filenames -F _maru maru maructl marutop maru-bench
