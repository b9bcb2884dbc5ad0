#!/bin/sh
# Checks the form of prose: Markdown, and comments of Rust, shaders, C and shell.
#
#   scripts/prose.sh [FILE ...]      (default: every file that git tracks)
#   scripts/prose.sh --self-test
#
# * A line of prose has at most 110 columns. Tables, blocks of code and the targets of links are excepted.
# * No sentence of a comment opens with What, Who, Whose, Whatever or Whoever, unless it is a question.
# * None of some phrases that are not English, or not of today (REFUSED).
#
# Prints `FILE:LINE: reason`; exit code 1 if there is a finding.
set -u
cd "$(dirname "$0")/.." || exit 2

MAX_COLUMNS=110
REFUSED='anew|the begin of|the exception are|one behind the other|behind (the|its|their) end'
# Paths that are not checked yet, as patterns of the shell.
UNFINISHED=''

check() {
    # Bytes of the C locale: each awk counts them alike, and the bytes that continue a character are taken
    # away.
    LC_ALL=C awk -v max="$MAX_COLUMNS" -v refused="(^|[^a-z])($REFUSED)([^a-z]|$)" '
        function report(reason) { printf "%s:%d: %s\n", FILENAME, FNR, reason; found = 1 }
        function columns(text) { gsub(/[\200-\277]/, "", text); return length(text) }
        # A link without its target, which cannot be broken.
        function without_links(text) {
            gsub(/\]\([^)]*\)/, "]", text)
            gsub(/https?:\/\/[^ )>]*/, "", text)
            return text
        }
        # A clause that stands for a noun has no question mark before the end of its sentence or line.
        function opens_with_clause(text) {
            if (!match(text, /^(What|Who|Whose|Whatever|Whoever) /)) return 0
            sub(/[.;:].*/, "", text)
            return text !~ /\?/
        }
        function prose(text, shown,    rest) {
            if (text ~ /^[ \t]*```/) { in_code = !in_code; return }
            if (in_code || text ~ /^[ \t]*\|/) return
            if (columns(without_links(shown)) > max) report("more than " max " columns")
            if (match(tolower(text), refused)) report("not English: " substr(text, RSTART, RLENGTH))
            if (is_markdown) return
            sub(/^[ \t]*([*-] )?/, "", text)
            rest = text
            while (rest != "") {
                if (opens_with_clause(rest)) { report("a sentence opens with a clause in place of a noun: " rest); return }
                if (!match(rest, /[.;:] /)) return
                rest = substr(rest, RSTART + 2)
            }
        }
        FNR == 1 {
            in_code = 0
            is_markdown = FILENAME ~ /\.md$/
            mark = FILENAME ~ /\.sh$|Makefile$|\.toml$|\/run$/ ? "#" : "//"
        }
        is_markdown { prose($0, $0); next }
        {
            text = $0
            sub(/^[ \t]*/, "", text)
            if (mark == "#" && text ~ /^#/ && text !~ /^#!/) { sub(/^#+ ?/, "", text); prose(text, $0) }
            else if (mark == "//" && text ~ /^\/\//) { sub(/^\/\/[\/!]* ?/, "", text); prose(text, $0) }
            else in_code = 0
        }
        END { exit found }
    ' "$@"
}

# Runs a text through the check under a name; prints the findings.
finding() {
    printf '%s\n' "$2" >"$folder/$1"
    check "$folder/$1"
}

self_test() {
    folder=$(mktemp -d) || exit 2
    trap 'rm -rf "$folder"' EXIT
    long=$(printf '%0112d' 0)
    umlauts=$(printf '%0105d' 0 | sed 's/0/ä/g')
    failed=0
    expect() { # name, text, findings
        lines=$(finding "$1" "$2" | wc -l)
        [ "$lines" -eq "$3" ] || { echo "prose: $lines findings in place of $3 in: $2"; failed=1; }
    }
    expect a.md "$long" 1
    expect a.md "| $long |" 0
    expect a.md "$(printf '```\n%s\n```\n%s' "$long" "$long")" 1
    expect a.md "a [link](https://example.org/$long)" 0
    expect a.md "$umlauts" 0
    expect a.rs "// $long" 1
    expect a.rs "let a = \"$long\";" 0
    expect a.rs "$(printf '/// ```\n/// %s\n/// ```' "$long")" 0
    expect a.rs "    /// What a thread keeps." 1
    expect a.rs "// What is it? Who knows it?" 0
    expect a.rs "/// It is made anew." 1
    expect a.md "The begin of a line, and the beginning of another." 1
    expect a.rs "let anew = 1; // the beginning of a line" 0
    expect a.rs "// Fine. Who lets go the last looks." 1
    expect a.rs "let what = 1; // it is what it is" 0
    expect a.comp "// Whose leaf it is is asked first: another writer is at it." 1
    expect a.sh "$(printf '#!/bin/sh\n# Whatever comes.')" 1
    [ "$failed" -eq 0 ] && echo "prose: the check finds what was planted"
    exit "$failed"
}

[ "${1:-}" = --self-test ] && self_test

if [ $# -eq 0 ]; then
    # Names of files have no spaces here.
    # shellcheck disable=SC2046
    set -- $(git ls-files '*.md' '*.rs' '*.sh' '*.comp' '*.glsl' '*.c' '*.h' Makefile .ci/run 'Cargo.toml' deny.toml)
    files=
    # The patterns are for names, and not for the shell to expand.
    set -f
    for file; do
        skip=
        for pattern in $UNFINISHED; do
            # shellcheck disable=SC2254
            case $file in $pattern) skip=1 ;; esac
        done
        [ -n "$skip" ] || [ ! -e "$file" ] || files="$files $file"
    done
    # shellcheck disable=SC2086
    set -- $files
fi
check "$@"
