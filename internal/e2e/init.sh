# The first process of a host: init.sh NAME DIR, in fresh namespaces. It prepares the host's file systems, says "ready"
# and waits for the end of its standard input. When it ends, the kernel ends every process of the host.
set -eu
name=$1 dir=$2

mount --make-rprivate /
mount -t proc proc /proc
# A file system that a process serves, as the tests of persist do, ends with its last mount. Here is a copy.
umount --all --lazy --types fuse.powerfs 2>/dev/null || true
hostname "$name"
ip link set lo up

# An empty /run, as after a boot, hides the sockets and plugins of the machine's own engine. What name resolution needs
# of the old one is kept: on many machines resolv.conf is a link into /run, and the engine mounts it into plugins.
resolv=$(readlink -f /etc/resolv.conf || true)
kept=$([[ $resolv == /run/* && -r $resolv ]] && cat "$resolv" || true)
mount -t tmpfs -o mode=0755 tmpfs /run
if [[ $resolv == /run/* ]]; then
	mkdir -p "${resolv%/*}"
	printf '%s\n' "$kept" >"$resolv"
fi

for state in docker containerd; do
	mkdir -p "$dir/$state" "/var/lib/$state"
	mount --bind "$dir/$state" "/var/lib/$state"
done

# The engine's identity is in /etc/docker; a host's own name is that of a loopback address, as Debian's installer has it.
mkdir -p "$dir/etc-docker" /etc/docker
mount --bind "$dir/etc-docker" /etc/docker
[[ -e $dir/hosts ]] || printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$name" >"$dir/hosts"
mount --bind "$dir/hosts" /etc/hosts

# Control groups are the one thing that does not end with a namespace: containers have theirs below one named after DIR,
# plugins each one named after their id. What was there when the power went off is noted for the end.
plugins() { find "$dir/docker/plugins" -mindepth 1 -maxdepth 1 -type d -regextype posix-extended -regex '.*/[0-9a-f]{64}' -printf '%f\n' 2>/dev/null || true; }
plugins >>"$dir/plugins"

echo ready
while read -r _; do :; done

# The test has ended, or was killed: end the rest, then remove what it wrote. In a container that is paused even SIGKILL
# waits until the container is thawed (control groups of version 1), and so would the end of the host.
plugins >>"$dir/plugins"
kill -KILL -1 2>/dev/null || true
find /sys/fs/cgroup -path "*/${dir##*/}/*" -name freezer.state 2>/dev/null | while read -r state; do
	echo THAWED 2>/dev/null >"$state" || true
done
for _ in {1..200}; do
	kill -0 -1 2>/dev/null || break # a control group cannot be removed while somebody dies in it
	sleep 0.05
done
for group in "${dir##*/}" $(sort -u "$dir/plugins"); do
	find /sys/fs/cgroup -depth -mindepth 1 -type d -path "*/$group*" -exec rmdir {} + 2>/dev/null || true
done
umount -R /etc/hosts /etc/docker /var/lib/docker /var/lib/containerd 2>/dev/null || true
rm -rf "$dir"
