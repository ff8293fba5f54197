#!/bin/bash
# The managed plugin, from build/ringlet to an engine: plugin.sh directory VERSION | bom VERSION | create | install | push | uninstall
#
# PLUGIN is the plugin's name, with its tag; BUILD the folder of what was built. An engine cannot replace a plugin in
# place without a registry, and removing one removes its data: which addresses are held. So an installed plugin of
# another build is left alone, with an explanation, unless REPLACE=yes.
set -euo pipefail
cd "$(dirname "$0")/.."

PLUGIN=${PLUGIN:-ringlet:latest}
REPLACE=${REPLACE:-no}
BUILD=${BUILD:-build}
BOM=ringlet.cdx.json
[[ ${PLUGIN##*/} == *:* ]] || PLUGIN=$PLUGIN:latest

# What `make run` names; see run.sh.
DEMO_IMAGE=ringlet-demo DEMO_NETWORK=ringlet-demo DEMO_CONTAINERS=(ringlet-demo-1 ringlet-demo-2)

fail() {
	printf 'ringlet: %s\n' "$1" >&2
	shift
	[[ $# == 0 ]] || printf '  %s\n' "$@" >&2
	exit 1
}

need_engine() {
	command -v docker >/dev/null || fail "the docker command is not installed"
	local problem
	problem=$(docker version --format '{{.Server.Version}}' 2>&1 >/dev/null) ||
		fail "the Docker engine does not answer: $problem" "start it, or set DOCKER_HOST to one that runs"
}

# directory VERSION makes build/plugin, the form that `docker plugin create` takes. The description names the build.
directory() {
	local id to=$BUILD/plugin
	umask 022 # the same modes, whoever builds
	id=$(cat "$BUILD/ringlet" config.json | sha256sum | cut -c1-12)
	rm -rf "$to"
	mkdir -p "$to"/rootfs/{data,run/docker/plugins,run/docker/host}
	command install -m 755 "$BUILD/ringlet" "$to/rootfs/ringlet"
	sed "s|\"description\": \"ringlet: |\"description\": \"ringlet $1 (build $id): |" config.json >"$to/config.json"
	grep -q "(build $id)" "$to/config.json" || fail "config.json has no description that begins with \"ringlet: \""
	rm -f "$BUILD/$BOM" # of another build
	checksums
}

# checksums writes SHA256SUMS, for sha256sum --check in the folder of what was built.
checksums() { (cd "$BUILD" && sha256sum ringlet plugin/config.json plugin/rootfs/ringlet $([[ ! -e $BOM ]] || echo $BOM) >SHA256SUMS); }

# bom VERSION writes the software bill of materials of the program, in CycloneDX's JSON: the modules that it was linked
# from and the standard library, with versions and hashes, as the program itself has them.
bom() {
	GOFLAGS=-buildvcs=false ${GO:-go} tool -modfile=tools/go.mod cyclonedx-gomod bin -json -std -noserial -notimestamp \
		-version "$1" -output "$BUILD/$BOM" "$BUILD/ringlet"
	checksums
	echo "$BUILD/$BOM: $(grep -c '"purl"' "$BUILD/$BOM") components"
}

description() { docker plugin inspect --format '{{.Config.Description}}' "$1" 2>/dev/null; }
enabled() { [[ $(docker plugin inspect --format '{{.Enabled}}' "$PLUGIN") == true ]]; }

# build_of finds "(build ID)" in a description.
build_of() { sed -n 's/.*(build \([0-9a-f]*\)).*/\1/p' <<<"$1"; }
own_build() { build_of "$(cat "$BUILD/plugin/config.json" 2>/dev/null)"; }

# networks lists the engine's networks on the plugin, one per line.
networks() {
	local ids
	ids=$(docker network ls --quiet)
	# shellcheck disable=SC2086 # one id per word
	docker network inspect --format '{{.Name}} {{.IPAM.Driver}}' $ids | awk -v driver="$PLUGIN" '$2 == driver { print $1 }'
}

# state prints absent, same (this build), other (a build of ours that is not this one) or foreign.
state() {
	local text
	text=$(description "$PLUGIN") || { echo absent; return; }
	if [[ $text != "ringlet "* ]]; then
		echo foreign
	elif [[ $(build_of "$text") == "$(own_build)" ]]; then
		echo same
	else
		echo other
	fi
}

create() {
	need_engine
	case $(state) in
	same) echo "$PLUGIN is in the engine, and it is this build" && return ;;
	foreign) fail "$PLUGIN in this engine is another plugin, not ringlet" "choose another name: make plugin PLUGIN=…" ;;
	other)
		[[ $REPLACE == yes ]] || explain_other
		remove
		;;
	esac
	docker plugin create "$PLUGIN" "$BUILD/plugin" >/dev/null
	echo "created $PLUGIN, build $(own_build)"
}

explain_other() {
	fail "$PLUGIN is installed with another build, and was left as it is" \
		"the engine upgrades a plugin, keeping its data, only from a registry:" \
		"  make push PLUGIN=REGISTRY/ringlet:TAG" \
		"  docker plugin disable --force $PLUGIN" \
		"  docker plugin upgrade --grant-all-permissions --skip-remote-check $PLUGIN REGISTRY/ringlet:TAG" \
		"  docker plugin enable $PLUGIN" \
		"or give up its data, that is which addresses are held: make ${GOAL:-install} REPLACE=yes"
}

# remove removes the plugin and its data, unless networks need it.
remove() {
	local used
	used=$(networks)
	[[ -z $used ]] || fail "$PLUGIN has networks, and was left as it is: ${used//$'\n'/, }" "remove them first: docker network rm"
	if enabled; then
		docker plugin disable --force "$PLUGIN" >/dev/null
	fi
	docker plugin rm "$PLUGIN" >/dev/null
	echo "removed $PLUGIN and its data"
}

# architecture prints what a program was built for, as the engine calls it.
architecture() {
	case $(od -An -tu2 -j18 -N2 "$1" | tr -d ' ') in # e_machine of its ELF header
	62) echo amd64 ;;
	183) echo arm64 ;;
	*) echo unknown ;;
	esac
}

install() {
	local is runs
	need_engine
	is=$(architecture "$BUILD/plugin/rootfs/ringlet") runs=$(docker version --format '{{.Server.Arch}}')
	[[ $is == "$runs" ]] || fail "$BUILD/plugin is for $is, and the engine runs on $runs" "make install ARCH=$runs"
	create
	if ! enabled; then
		docker plugin enable "$PLUGIN" >/dev/null || fail "$PLUGIN did not start" \
			"$BUILD/ringlet doctor says why"
		echo "enabled $PLUGIN"
	fi
	local version
	version=$(docker version --format '{{.Server.Version}}')
	if [[ ${version%%.*} =~ ^[0-9]+$ && ${version%%.*} -lt 29 ]]; then
		echo "note: engine $version does not send the names of containers: a restart changes the address, unless the container has a fixed MAC"
	fi
}

# push makes the plugin under the name of the registry, pushes it, and removes it again from the engine.
push() {
	[[ $PLUGIN == */* ]] || fail "PLUGIN names no registry: $PLUGIN" "make push PLUGIN=host/ringlet:1.0"
	need_engine
	local was
	was=$(state)
	if [[ $was == other ]] && enabled; then
		fail "$PLUGIN is enabled in this engine with another build" "push from another engine, or under another tag"
	fi
	GOAL=push create
	docker plugin push "$PLUGIN"
	if [[ $was == absent ]]; then
		docker plugin rm "$PLUGIN" >/dev/null
	fi
}

uninstall() {
	need_engine
	local users problem kept=
	docker rm --force "${DEMO_CONTAINERS[@]}" >/dev/null 2>&1 || true
	if docker network inspect "$DEMO_NETWORK" >/dev/null 2>&1; then
		users=$(docker network inspect --format '{{range .Containers}}{{.Name}} {{end}}' "$DEMO_NETWORK")
		[[ -z $users ]] || fail "the network $DEMO_NETWORK has containers that make run did not start, and was left as it is, as was $PLUGIN: $users" \
			"remove them first: docker rm --force $users"
		docker network rm "$DEMO_NETWORK" >/dev/null
		echo "removed the network $DEMO_NETWORK and its containers"
	fi
	# An image that somebody's containers are made of stays, and does not keep the plugin.
	if docker image inspect "$DEMO_IMAGE" >/dev/null 2>&1; then
		if problem=$(docker image rm "$DEMO_IMAGE" 2>&1 >/dev/null); then
			echo "removed the image $DEMO_IMAGE"
		else
			kept=$problem
		fi
	fi
	case $(state) in
	absent) echo "$PLUGIN is not in the engine" ;;
	foreign) fail "$PLUGIN in this engine is another plugin, not ringlet" ;;
	*) remove ;;
	esac
	[[ -n $kept ]] || return 0
	users=$(docker ps --all --filter "ancestor=$DEMO_IMAGE" --format '{{.Names}}')
	[[ -n $users ]] || fail "the image $DEMO_IMAGE was left as it is: $kept"
	fail "the image $DEMO_IMAGE has containers that make run did not start, and was left as it is: ${users//$'\n'/ }" \
		"docker rm --force ${users//$'\n'/ }, and then make uninstall again, removes it, too"
}

command=${1:-}
case $command in
directory | bom) "$command" "${2:?VERSION}" ;;
create | install | push | uninstall | state | networks) "$command" ;; # the last two are for run.sh
*) fail "usage: plugin.sh directory VERSION | bom VERSION | create | install | push | uninstall" ;;
esac
