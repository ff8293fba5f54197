#!/usr/bin/env bash
# Builds dockerd of some release, and a runc that it needs, from their Go modules, for make e2e ENGINE=DIR:
#
#   engine.sh DIR VERSION MODULE@VERSION
#   scripts/engine.sh build/engine-29 29.0.0 github.com/moby/moby/v2@v2.0.0-beta.24
#   scripts/engine.sh build/engine-28 28.5.2 github.com/docker/docker@v28.5.2+incompatible
#
# VERSION is what dockerd says that it is. runc needs gcc and libseccomp's headers.
set -euo pipefail
(($# == 3)) || { sed -n '2,8s/^# \?//p' "$0" >&2; exit 2; }
out=$(realpath -m "$1") version=$2 engine=$3 runc=github.com/opencontainers/runc@v1.3.3
GO=${GO:-go}
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
mkdir -p "$out"

export GOFLAGS=-mod=mod

# From a copy of the module, since engines up to 28 give their go.mod another name.
echo "dockerd $version, from $engine"
dir=$($GO mod download -json "$engine" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
cp -r "$dir" "$work/dockerd"
chmod -R u+w "$work/dockerd"
cd "$work/dockerd"
[[ -e go.mod ]] || { mv vendor.mod go.mod && mv vendor.sum go.sum; }
rm -rf vendor
CGO_ENABLED=0 $GO build -ldflags "-s -w -X ${engine%@*}/dockerversion.Version=$version" -o "$out/dockerd" ./cmd/dockerd

# From a module that requires it, since what its own replaces is not in it.
echo "runc, from $runc"
mkdir "$work/runc"
cd "$work/runc"
$GO mod init runc
$GO get "$runc"
CGO_ENABLED=1 $GO build -tags seccomp -ldflags "-s -w" -o "$out/runc" "${runc%@*}"
ls -l "$out"
