#!/bin/bash
# make run: install the plugin in the engine, make a network on it, start two containers and let one reach the other.
# Everything comes from this folder, no registry is asked. It can be run again; make uninstall removes all of it.
set -euo pipefail
cd "$(dirname "$0")/.."

PLUGIN=${PLUGIN:-ringlet:latest}
[[ ${PLUGIN##*/} == *:* ]] || PLUGIN=$PLUGIN:latest
IMAGE=ringlet-demo NETWORK=ringlet-demo FIRST=ringlet-demo-1 SECOND=ringlet-demo-2
SUBNET=${SUBNET:-10.77.0.0/24}
BUILD=${BUILD:-build}

if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
	bold=$'\e[1m' dim=$'\e[2m' green=$'\e[32m' red=$'\e[31m' plain=$'\e[0m'
else
	bold='' dim='' green='' red='' plain=''
fi
say() { printf '%s▸ %s%s\n' "$bold" "$1" "$plain"; }
show() { sed "s/^/  /"; }
shell() { printf '  %s$ %s%s\n' "$dim" "$*" "$plain"; }

say "The plugin"
# A plugin that the last run made, and that only the demo uses, makes way for a new build; any other is left alone.
made=$BUILD/run.plugin
id() { docker plugin inspect --format '{{.ID}}' "$PLUGIN"; }
state=$(scripts/plugin.sh state)
if [[ $state == other && $(id) == "$(cat "$made" 2>/dev/null)" && $(scripts/plugin.sh networks) =~ ^($NETWORK)?$ ]]; then
	scripts/plugin.sh uninstall | show
	state=absent
fi
GOAL=run scripts/plugin.sh install | show
[[ $state != absent ]] || id >"$made"

say "A network on it"
if driver=$(docker network inspect --format '{{.IPAM.Driver}}' "$NETWORK" 2>/dev/null); then
	[[ $driver == "$PLUGIN" ]] || { echo "  the network $NETWORK exists with another IPAM driver, $driver; remove it first" >&2 && exit 1; }
else
	shell docker network create --ipam-driver "$PLUGIN" --subnet "$SUBNET" "$NETWORK"
	docker network create --ipam-driver "$PLUGIN" --subnet "$SUBNET" "$NETWORK" >/dev/null
fi
docker network inspect --format '{{.Name}}  {{range .IPAM.Config}}{{.Subnet}}{{end}}  driver {{.IPAM.Driver}}' "$NETWORK" | show

say "Two containers"
for name in "$FIRST" "$SECOND"; do
	if docker container inspect "$name" >/dev/null 2>&1; then
		docker rm --force "$name" >/dev/null
		echo "  removed the $name of an earlier run"
	fi
done
# Imported once per build of the demo: an import of the same file again would leave the old image behind, without a name.
build="build $(sha256sum <"$BUILD/demo.tar" | cut -c1-12)"
if [[ $(docker image inspect --format '{{.Comment}}' "$IMAGE" 2>/dev/null) != "$build" ]]; then
	docker image rm "$IMAGE" >/dev/null 2>&1 || true
	docker import --message "$build" --change 'ENTRYPOINT ["/demo"]' "$BUILD/demo.tar" "$IMAGE" >/dev/null
fi
for name in "$FIRST" "$SECOND"; do
	shell docker run --detach --name "$name" --network "$NETWORK" "$IMAGE"
	docker run --detach --name "$name" --network "$NETWORK" "$IMAGE" >/dev/null
done
address() { docker inspect --format "{{(index .NetworkSettings.Networks \"$NETWORK\").IPAddress}}" "$1"; }
printf '  %-16s %s%s%s\n' "$FIRST" "$bold" "$(address "$FIRST")" "$plain" "$SECOND" "$bold" "$(address "$SECOND")" "$plain"

say "One reaches the other"
shell docker exec "$FIRST" /demo ping "$(address "$SECOND")"
if answer=$(docker exec "$FIRST" /demo ping "$(address "$SECOND")" 2>&1); then
	printf '  %s✓%s %s\n' "$green" "$plain" "$(tail -1 <<<"$answer")"
else
	printf '  %s✗%s %s\n' "$red" "$plain" "$answer" >&2
	exit 1
fi

say "ringlet status"
# Only root may use the plugin's socket, where whoever may use the engine can run the rest.
root=
if [[ $EUID == 0 ]]; then
	"$BUILD/ringlet" status 2>&1 | show || true
else
	root="sudo "
	echo "  ${root}$BUILD/ringlet status shows how it is: only root may use the plugin's socket"
fi

say "Now you"
hint() { printf '  %-58s %s# %s%s\n' "$1" "$dim" "$2" "$plain"; }
hint "docker run --rm --network $NETWORK $IMAGE addrs" "one more container"
hint "${root}build/ringlet ip ls" "who holds what"
hint "make uninstall" "remove all of this"
