# Completion of vctl for bash.

# Sets `meant` to what a word of the line stands for, without its quotes and backslashes, and `open` to the quote that it leaves open.
# Nothing in it is expanded.
_vctl_meant() {
    local i c next
    meant="" open=""
    for ((i = 0; i < ${#1}; i++)); do
        c="${1:i:1}"
        if [[ -n "$open" && "$c" == "$open" ]]; then
            open=""
        elif [[ "$open" == "'" ]]; then
            meant+="$c"
        elif [[ "$c" == "\\" ]]; then
            i=$((i + 1))
            next="${1:i:1}"
            # In double quotes it stands for itself before most letters.
            [[ -n "$open" && "$next" != [\\\$\`\"] ]] && meant+="$c"
            meant+="$next"
        elif [[ -z "$open" && "$c" == [\"\'] ]]; then
            open="$c"
        else
            meant+="$c"
        fi
    done
}

_vctl_complete() {
    # bash breaks words at = and @ too: what stands together on the line is put together again.
    local rest="${COMP_LINE:0:COMP_POINT}" words=() left word kept i meant open candidate separator=$'\013'
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
    # Of such a word bash replaces the last part only, and of one that is in quotes what is inside them.
    kept="${words[${#words[@]} - 1]%"$2"}"
    for ((i = 0; i < ${#words[@]}; i++)); do
        _vctl_meant "${words[i]}"
        words[i]="$meant"
    done
    _vctl_meant "$kept"
    COMPREPLY=()
    while IFS= read -r -d "$separator" candidate || [[ -n "$candidate" ]]; do
        [[ "$candidate" == "$meant"* ]] || continue
        candidate="${candidate#"$meant"}"
        # Candidates are words of others, such as the author of a template: on the line they are never more than words.
        case "$open" in
            "'") [[ "$candidate" != *\'* ]] || continue ;;
            '"') [[ "$candidate" != *[\\\$\`\"!]* ]] || continue ;;
            *) [[ -z "$candidate" ]] || printf -v candidate %q "$candidate" ;;
        esac
        COMPREPLY+=("$candidate")
    done < <(_CLAP_IFS="$separator" _CLAP_COMPLETE_INDEX=$((${#words[@]} - 1)) VCTL_COMPLETE=bash vctl -- "${words[@]}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == *[=@/:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -o bashdefault -o nosort -F _vctl_complete vctl
else
    complete -o bashdefault -F _vctl_complete vctl
fi
