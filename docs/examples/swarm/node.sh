#!/bin/sh -eu
# On each node, manager or worker: the subnet, the same on all, and what is this node's own, the interface on the LAN.
docker network create --config-only --ipam-driver ringlet:latest \
	--subnet 192.168.1.0/24 --gateway 192.168.1.1 --opt parent=eth0 lan-config
