#!/bin/bash
# govulncheck over what is shipped: make vuln. It fails on each known vulnerability that the program's code can reach and
# that scripts/vuln.txt does not accept with a reason.
#
# Its database is https://vuln.go.dev, or, where that cannot be reached, the newest golang.org/x/vulndb of the module
# proxy, which that is made from. Where neither can be reached, nothing is looked up, and the last line says so.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# look DATABASE runs govulncheck: 0 when it ran, whatever it found.
look() {
	local status=0
	$GO tool -modfile=tools/go.mod govulncheck -db "$1" ./plugin >"$log" 2>&1 || status=$?
	[[ $status == 0 || $status == 3 ]] # 3: it found some
}

# newest prints where the database lies in the newest module of it.
newest() {
	(cd / && timeout 300 $GO mod download -json golang.org/x/vulndb@latest 2>/dev/null) | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p'
}

database=https://vuln.go.dev
if ! look "$database"; then
	dir=$(newest) || true
	if [[ -z $dir ]]; then
		printf -- '--- SKIP: govulncheck\n    vuln.sh:1: neither %s nor the module golang.org/x/vulndb can be reached\n' "$database"
		exit 0
	fi
	database=file://$dir/data/osv
	look "$database" || { cat "$log" >&2 && exit 1; }
fi

# What is found and not accepted, and what is accepted and not found.
found=$(sed -n 's/^Vulnerability #[0-9]*: //p' "$log" | sort)
accepted=$(sed -n 's/^\(GO-[0-9-]*\) .*/\1/p' scripts/vuln.txt | sort)
new=$(comm -23 <(echo "$found") <(echo "$accepted"))
gone=$(comm -13 <(echo "$found") <(echo "$accepted"))
echo "database: ${database/#file:*vulndb@/golang.org/x/vulndb@}"
[[ -z $gone ]] || echo "no longer found, and to be taken out of scripts/vuln.txt: ${gone//$'\n'/ }"
if [[ -n $new ]]; then
	cat "$log"
	echo "not accepted in scripts/vuln.txt: ${new//$'\n'/ }" >&2
	exit 1
fi
echo "nothing new; accepted with a reason: $(grep -c . <<<"$found")"
