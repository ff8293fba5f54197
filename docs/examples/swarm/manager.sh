#!/bin/sh -eu
# On one manager, once every node has its configuration: the network for the whole swarm, and a stack on it.
cd "$(dirname "$0")"
docker network create --driver macvlan --scope swarm --config-from lan-config --attachable lan
docker stack deploy --compose-file stack.yaml example
