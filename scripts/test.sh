#!/bin/bash
# The lanes of the tests: test.sh LANE…, lanes being vet staticcheck unit race bench e2e fuzz. All of them run, also after one has
# failed; the last line says how it went and how many tests were skipped. Full output is in build/test/LANE.log.
set -uo pipefail
cd "$(dirname "$0")/.."

GO=${GO:-go}
FUZZTIME=${FUZZTIME:-20s}
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"
mkdir -p build/test
failed=() skipped=0

# The tests with real engines have a lane of their own.
packages() { $GO list ./... | grep -v /internal/e2e; }

# Packages with goroutines of their own. The core has none, and its simulations take many times longer with -race.
concurrent() {
	local dir
	for dir in driver gossip persist plugin internal ipam/node; do
		[[ ! -d $dir ]] || $GO list "./$dir/..." | grep -v -e /internal/e2e -e /internal/archtest
	done
}

# quiet shows of `go test -v` the result of each package, what was skipped and why, and all that a failed package wrote.
quiet() {
	awk '
		/^=== (RUN|PAUSE|CONT|NAME)/ { said = ""; next }
		/^(ok|FAIL|\?)[ \t]/ {
			if ($1 == "FAIL") printf "%s", all; else printf "%s", skips
			if ($1 != "?") print
			all = skips = ""; fflush(); next
		}
		/^(ok|FAIL|PASS)$/ { next }
		/^ *--- SKIP/ { skips = skips $0 said "\n" }
		!/^ *--- PASS/ { all = all $0 "\n" }
		{ said = $0; sub(/^ *[a-z0-9_]+\.go:[0-9]+: /, ": ", said) }
		END { printf "%s", all }'
}

# lane NAME COMMAND… runs a lane, keeps its output and notes the result.
lane() {
	local name=$1 log=build/test/$1.log begun=$SECONDS
	shift
	printf '\n== %s\n' "$name"
	"$@" 2>&1 | tee "$log" | quiet
	local status=${PIPESTATUS[0]}
	local count
	count=$(grep -c '^ *--- SKIP' "$log")
	skipped=$((skipped + count))
	if [[ $status == 0 ]]; then
		printf '== %s: passed in %ds\n' "$name" $((SECONDS - begun))
	else
		printf '== %s: FAILED after %ds, see %s\n' "$name" $((SECONDS - begun)) "$log"
		failed+=("$name")
	fi
}

# fuzz gives each fuzz target its time; go test takes one at a time.
fuzz() {
	local package target status=0
	for package in $($GO list ./...); do
		for target in $($GO test -list '^Fuzz' "$package" | grep '^Fuzz'); do
			$GO test -run '^$' -fuzz "^$target\$" -fuzztime "$FUZZTIME" "$package" || status=1
		done
	done
	return $status
}

for name in "$@"; do
	case $name in
	vet) lane vet $GO vet ./... ;;
	staticcheck) lane staticcheck $GO tool -modfile=tools/go.mod staticcheck ./... ;;
	unit) lane unit $GO test -v -count=1 -shuffle=on $(packages) ;;
	race) lane race $GO test -v -race -short -count=1 -timeout 15m $(concurrent) ;;
	bench) lane bench $GO test -v -run '^$' -bench . -benchtime=1x $(packages) ;;
	e2e) lane e2e env RINGLET_E2E=1 $GO test -v -count=1 -timeout 25m ./internal/e2e/... ;;
	fuzz) lane fuzz fuzz ;;
	*) echo "test.sh: no lane $name" >&2 && exit 2 ;;
	esac
done

echo
if [[ ${#failed[@]} -gt 0 ]]; then
	printf 'FAILED: %s; %d tests skipped\n' "${failed[*]}" "$skipped"
	exit 1
fi
printf 'passed: %s; %d tests skipped\n' "$*" "$skipped"
