#!/usr/bin/env bash
# Builds the plugin of an earlier commit, for the tests that upgrade it in place:
#
#   old.sh DIR COMMIT
#   scripts/old.sh build/old a1d9fa3
#
# DIR becomes what build/plugin is at that commit. The clone needs the commit in its history.
set -euo pipefail
(($# == 2)) || { sed -n '2,7s/^# \?//p' "$0" >&2; exit 2; }
out=$(realpath -m "$1") commit=$2
work=$(mktemp -d)
trap 'git worktree remove --force "$work/tree" 2>/dev/null || true; rm -rf "$work"' EXIT
git worktree add --quiet --detach "$work/tree" "$commit"
make --silent -C "$work/tree" build/plugin
rm -rf "$out"
mkdir -p "$(dirname "$out")"
cp -r "$work/tree/build/plugin" "$out"
