#!/bin/bash
# The lanes of the tests: test.sh LANE…, lanes being vet lint unit race bench peers repro sbom
# vuln e2e fuzz. All of them run, also after
# one has failed; the last line says how it went, and how many and which tests were skipped. Full output is in
# build/test/LANE.log.
set -uo pipefail
cd "$(dirname "$0")/.."

GO=${GO:-go}
FUZZTIME=${FUZZTIME:-20s}
# Only what is released is compiled by the profile: for the tests all packages would be compiled twice.
export GOFLAGS="${GOFLAGS:-} -buildvcs=false -pgo=off"
[[ $# -gt 0 ]] || { sed -n 2,5p scripts/test.sh >&2 && exit 2; }
mkdir -p build/test
failed=() passed=() logs=()

# The tests with real engines have a lane of their own.
packages() { $GO list ./... | grep -v /internal/e2e; }

# Packages with goroutines of their own. The core has none, and its simulations take many times longer with -race; so do
# the crash tests of persist, of which -short makes fewer.
concurrent() {
	local dir
	for dir in driver gossip persist plugin internal ipam/node; do
		[[ ! -d $dir ]] || $GO list "./$dir/..." | grep -v -e /internal/e2e -e /internal/archtest
	done
}

# quiet shows of `go test -v` the result of each package, what was skipped and why, and all that a failed package wrote.
quiet() {
	awk '
		/^=== (RUN|PAUSE|CONT|NAME)/ { test = $3; next }
		/^(ok|FAIL|\?)[ \t]/ {
			if ($1 == "FAIL") printf "%s", all; else printf "%s", skips
			if ($1 != "?") print
			all = skips = ""; delete said; fflush(); next
		}
		/^(ok|FAIL|PASS)$/ { next }
		/^ *--- SKIP/ { skips = skips $0 said[$3] "\n" }
		!/^ *--- PASS/ { all = all $0 "\n" }
		sub(/^ *[a-z0-9_]+\.go:[0-9]+: /, ": ") { said[test] = $0 }
		END { printf "%s", all }'
}

# lane NAME COMMAND… runs a lane, keeps its output and notes the result.
lane() {
	local name=$1 log=build/test/$1.log begun=$SECONDS
	shift
	printf '\n== %s\n' "$name"
	"$@" 2>&1 | tee "$log" | quiet
	local status=${PIPESTATUS[0]}
	logs+=("$log")
	if [[ $status == 0 ]]; then
		passed+=("$name")
		printf '== %s: passed in %ds\n' "$name" $((SECONDS - begun))
	else
		printf '== %s: FAILED after %ds, see %s\n' "$name" $((SECONDS - begun)) "$log"
		failures "$log"
		failed+=("$name")
	fi
}

# failures repeats of a lane that failed what its failed tests said, without what engines wrote: so it stands at the end of
# a long output, too.
failures() {
	awk '
		/^=== (RUN|PAUSE|CONT|NAME)/ { test = $3; kept = 0; next }
		/^ *--- FAIL: / { failed[++n] = $3; kept = 0; next }
		/^ *--- / { kept = 0; next }
		/^ +[A-Za-z0-9_]+\.go:[0-9]+: last lines of / { kept = 0; next }
		/^ +[A-Za-z0-9_]+\.go:[0-9]+: / { kept = 6 }
		/^panic: / { failed[++n] = test = "panic"; kept = 30 } # also of tests that take too long
		kept-- > 0 { said[test] = said[test] substr($0, 1, 400) "\n" }
		END { for (i = 1; i <= n; i++) printf "%s:\n%s", failed[i], said[failed[i]] }' "$1"
}

# skipped counts and names the tests that were skipped, with their lanes; a test with skipped subtests is one of each.
skipped() {
	awk '
		/^ *--- SKIP: / {
			lane = FILENAME; gsub(/.*\/|\.log$/, "", lane)
			if (!($3 in lanes)) names[++n] = $3
			if (!seen[$3, lane]++) lanes[$3] = lanes[$3] (lanes[$3] == "" ? "" : ", ") lane
		}
		END {
			printf "%d test%s skipped", n, n == 1 ? "" : "s"
			for (i = 1; i <= n; i++) printf "%s%s (%s)", i == 1 ? ": " : ", ", names[i], lanes[names[i]]
		}' "${logs[@]}" /dev/null
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

# peers builds the module that compares ringlet with others, and has it measure each row once, as shortly as can be, and
# make such a profile as the compiler goes by.
peers() {
	$GO -C bench vet ./... && $GO -C bench run . -short -dir "$PWD/build" &&
		$GO -C bench run . -short -dir "$PWD/build" -profile "$PWD/build/test/default.pgo"
}

# sbom has the bill of materials made, and compares what it names with the modules that internal/archtest allows.
sbom() {
	make sbom && diff <(sed -n 's|.*"purl": "pkg:golang/\([^@?"]*\).*|\1|p' build/ringlet.cdx.json | grep -v '^std$' | LC_ALL=C sort) \
		internal/archtest/testdata/modules.golden
}

for name in "$@"; do
	case $name in
	vet) lane vet $GO vet ./... ;;
	# Its linters staticcheck and unused are all that staticcheck alone would look for.
	lint) lane lint $GO tool -modfile=tools/go.mod golangci-lint run --allow-parallel-runners ./... ;;
	unit)
		lane unit $GO test -v -count=1 -shuffle=on -timeout 30m $(packages)
		# A program in which frames and requests that bear a mark make it panic.
		lane marked $GO test -v -count=1 -tags marked -run Marked ./ipam/node ./plugin ./plugin/directory
		;;
	race) lane race $GO test -v -race -short -count=1 -timeout 15m $(concurrent) ;;
	bench) lane bench $GO test -v -run '^$' -bench . -benchtime=1x $(packages) ;;
	peers) lane peers peers ;;
	repro) lane repro scripts/repro.sh ;;
	sbom) lane sbom sbom ;;
	vuln) lane vuln scripts/vuln.sh ;;
	# They mostly wait, so more of them run at a time than there are processors.
	e2e) lane e2e env RINGLET_E2E=1 $GO test -v -count=1 -parallel 4 -timeout 40m ./internal/e2e/... ;;
	fuzz) lane fuzz fuzz ;;
	*) echo "test.sh: no lane $name" >&2 && exit 2 ;;
	esac
done

echo
if [[ ${#failed[@]} -gt 0 ]]; then
	printf 'FAILED: %s; passed: %s; %s\n' "${failed[*]}" "${passed[*]:-none}" "$(skipped)"
	exit 1
fi
printf 'passed: %s; %s\n' "${passed[*]}" "$(skipped)"
