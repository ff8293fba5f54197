# The root file system of the managed plugin: one static binary and the places where the engine mounts things. No base
# image is pulled. `make plugin` makes the same root file system without this file:
#
#	make build && docker build -t ringlet-rootfs .
FROM scratch
WORKDIR /data
WORKDIR /run/docker/host
WORKDIR /run/docker/plugins
WORKDIR /
COPY build/ringlet /ringlet
ENTRYPOINT ["/ringlet"]
CMD ["serve"]
