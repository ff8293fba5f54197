#!/bin/bash
# Builds the plugin twice, as two builders would, and compares what came out: make repro.
#
# The two builds differ in their folder, user's mask, time zone and build cache, and the second has settings of Go in
# its environment that would change a program. The Makefile and plugin.sh leave none of that an effect.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
unset BUILD OUT MAKEFLAGS MAKELEVEL # of the make that calls this

# copy DIR copies the source, without what is built.
copy() {
	mkdir -p "$1"
	tar --exclude=./build --exclude=./.git -cf - . | tar -C "$1" -xf -
}

# build DIR NAME=VALUE… builds there.
build() {
	local dir=$1
	shift
	env --chdir="$dir" "$@" make build/plugin VERSION=repro >&2
}

# listing DIR prints the mode, the SHA-256 and the name of each file of the plugin, and the mode of each folder.
listing() {
	(cd "$1/build" && find ringlet plugin SHA256SUMS -type f -printf '%m ' -exec sha256sum {} \; -o -type d -printf '%m %p\n') | LC_ALL=C sort -k 3
}

first=$work/first second="$work/a second folder"
copy "$first"
copy "$second"
(umask 022 && build "$first" TZ=UTC)
(umask 077 && build "$second" TZ=Asia/Tokyo GOCACHE="$work/cache" CGO_ENABLED=1 GOAMD64=v3 GOARM64=v9.0 GOOS=freebsd \
	GOEXPERIMENT=jsonv2 GOFIPS140=latest GODEBUG=madvdontneed=1 \
	GOFLAGS="-trimpath=false -buildvcs=false -pgo=off -tags=other '-ldflags=-X main.version=other'")
if ! diff <(listing "$first") <(listing "$second") >&2; then
	echo "two builds of one source differ: < is the first, > the second; go version -m build/ringlet tells what each was built with" >&2
	exit 1
fi
listing "$first"
echo "two builds of one source are the same, by $(cd "$first" && ${GO:-go} env GOVERSION)"
