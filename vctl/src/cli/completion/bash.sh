# Completion of vctl for bash.
_vctl_complete() {
    # bash breaks words at = and @ too: what stands together on the line is put together again.
    local IFS=$'\013' rest="${COMP_LINE:0:COMP_POINT}" words=() left word last kept i
    for ((i = 0; i <= COMP_CWORD; i++)); do
        left="${rest#"${rest%%[![:space:]]*}"}"
        word="${COMP_WORDS[i]}"
        ((i == COMP_CWORD)) && word="$left"
        if ((i > 0)) && [[ "$left" == "$rest" ]]; then
            words[${#words[@]} - 1]+="$word"
        else
            words+=("$word")
        fi
        rest="${left#"$word"}"
    done
    last="${words[${#words[@]} - 1]}"
    kept="${last%"$2"}"
    COMPREPLY=($(_CLAP_IFS="$IFS" _CLAP_COMPLETE_INDEX=$((${#words[@]} - 1)) VCTL_COMPLETE=bash vctl -- "${words[@]}" 2>/dev/null))
    # Of such a word bash replaces the last part only.
    COMPREPLY=("${COMPREPLY[@]#"$kept"}")
    if [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == *[=@/:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -o bashdefault -o nosort -F _vctl_complete vctl
else
    complete -o bashdefault -F _vctl_complete vctl
fi
