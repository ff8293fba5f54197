#!/bin/bash
# Writes the databases in this folder: make.sh RINGLET DEMO.TAR, with the binary that commit a1d9fa3 builds. It ran once;
# the files stay as that binary wrote them. It needs root, a Docker engine, curl and jq.
#
#   lone        a peer without a key beside a real engine: two networks, containers, reservations, a client of alloc
#   three-a…c   three peers of one cluster, called as engine 29 calls: each has networks and holders. three-c was killed,
#               so its log is still beside its database
#
# NAME.db.gz is the database, NAME.wal.gz its log if there is one, NAME.json what the peer said of itself before it ended.
set -euo pipefail
ringlet=$(realpath "$1") demo=$(realpath "$2") out=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
declare -A pid
finish() {
	docker rm -f fix-web fix-db fix-old >/dev/null 2>&1 || true
	docker network rm fix-lab fix-chosen >/dev/null 2>&1 || true
	for name in "${!pid[@]}"; do kill "${pid[$name]}" 2>/dev/null || true; done
	rm -rf "$work" /run/docker/plugins/ringlet-fix.sock
}
trap finish EXIT

start() { # NAME SOCKET ENGINE, settings from the environment
	mkdir -p "$work/$1"
	"$ringlet" serve --data "$work/$1" --socket "$2" --admin-socket "$work/$1.admin" --docker-socket "$3" \
		--driver-name ringlet-fix >"$work/$1.log" 2>&1 &
	pid[$1]=$!
	for _ in {1..100}; do [[ -S $work/$1.admin ]] && ringlet "$1" version >/dev/null 2>&1 && return; sleep 0.1; done
	cat "$work/$1.log" >&2 && exit 1
}
ringlet() { local name=$1; shift; "$ringlet" --socket "$work/$name.admin" "$@"; }
until_ok() { for _ in {1..300}; do "$@" >/dev/null 2>&1 && return; sleep 0.2; done; echo "never: $*" >&2; exit 1; }
call() { # NAME METHOD BODY: a call of the engine
	curl -sf --unix-socket "$work/$1.sock" -d "$3" "http://x/IpamDriver.$2"
}
tell() { # NAME: what the peer says of itself
	jq -n --argjson addresses "$(ringlet "$1" ip ls -o json)" --argjson kept "$(ringlet "$1" reserve ls -o json)" \
		--argjson excluded "$(ringlet "$1" exclude ls -o json)" --argjson status "$(ringlet "$1" status -o json)" \
		'{self: $status.self.id, name: $status.self.name, networks: [$status.networks[]?.id], pools: [$status.pools[] | {pool, name}],
		  reservations: ($kept + $excluded | unique),
		  holders: [$addresses[] | select(.state == "held") | {address, kind, container, name, mac} | with_entries(select(.value != null))]}' \
		>"$out/$1.json"
}
keep() { # NAME SIGNAL
	tell "$1"
	kill "-$2" "${pid[$1]}"
	wait "${pid[$1]}" 2>/dev/null || true
	unset "pid[$1]"
	ls -l "$work/$1"
	gzip -9nc "$work/$1/ringlet.db" >"$out/$1.db.gz"
	[[ ! -e $work/$1/ringlet.db.wal ]] || gzip -9nc "$work/$1/ringlet.db.wal" >"$out/$1.wal.gz"
}

# A lone peer.
RINGLET_NAME=lone start lone /run/docker/plugins/ringlet-fix.sock /run/docker.sock
docker import --change 'ENTRYPOINT ["/demo"]' "$demo" ringlet-fix >/dev/null
docker network create --ipam-driver ringlet-fix --subnet 10.50.0.0/24 --ip-range 10.50.0.0/25 --aux-address nas=10.50.0.9 fix-lab >/dev/null
docker network create --ipam-driver ringlet-fix fix-chosen >/dev/null
docker run -d --name fix-web --network fix-lab ringlet-fix >/dev/null
docker run -d --name fix-db --network fix-lab --ip 10.50.0.20 ringlet-fix >/dev/null
docker run -d --name fix-old --network fix-chosen ringlet-fix >/dev/null
ringlet lone exclude add 10.50.0.40-10.50.0.49 --note printers
ringlet lone reserve add 10.50.0.30 --for queue
ringlet lone alloc --pool 10.50.0.0/24 --for vm-1
until_ok sh -c "'$ringlet' --socket '$work/lone.admin' ip ls -o json | jq -e '[.[] | select(.container != null and .container != \"\")] | length >= 3'"
keep lone TERM

# Three peers.
export RINGLET_KEY RINGLET_JOIN=127.50.0.1:7950,127.50.0.2:7950,127.50.0.3:7950 RINGLET_QUARANTINE=never
RINGLET_KEY=$("$ringlet" keygen)
n=0
for name in three-a three-b three-c; do
	n=$((n + 1))
	RINGLET_NAME=$name RINGLET_BIND=127.50.0.$n:7950 RINGLET_ADVERTISE=127.50.0.$n start $name "$work/$name.sock" ""
done
until_ok sh -c "'$ringlet' --socket '$work/three-a.admin' status"
n=0
for name in three-a three-b three-c; do
	n=$((n + 1))
	pool=$(call $name RequestPool '{"AddressSpace":"local","Pool":"10.60.0.0/24","Options":{"pool":"lan","gateway":"first"}}' | jq -r .PoolID)
	call $name RequestAddress "{\"PoolID\":\"$pool\",\"Options\":{\"RequestAddressType\":\"com.docker.network.gateway\"}}" >/dev/null
	for c in 1 2 3; do
		call $name RequestAddress "{\"PoolID\":\"$pool\",\"Options\":{\"com.docker.network.endpoint.name\":\"$name-$c\",\"com.docker.network.endpoint.macaddress\":\"02:42:00:00:0$n:0$c\"}}" >/dev/null
	done
	own=$(call $name RequestPool "{\"AddressSpace\":\"local\",\"Pool\":\"10.61.$n.0/24\"}" | jq -r .PoolID)
	call $name RequestAddress "{\"PoolID\":\"$own\",\"Options\":{\"RequestAddressType\":\"com.docker.network.gateway\"}}" >/dev/null
	call $name RequestAddress "{\"PoolID\":\"$own\",\"Options\":{\"com.docker.network.endpoint.name\":\"$name-own\",\"com.docker.network.endpoint.macaddress\":\"02:42:00:00:0$n:ff\"}}" >/dev/null
done
ringlet three-a exclude add 10.60.0.200-10.60.0.209 --note printers
ringlet three-b reserve add 10.60.0.220 --for queue
ringlet three-c alloc --pool lan --for vm-c
until_ok sh -c "'$ringlet' --socket '$work/three-c.admin' reserve ls -o json | grep queue"
sleep 3
for name in three-a three-b; do tell $name; done
keep three-c KILL
keep three-b TERM
keep three-a TERM
ls -l "$out"
