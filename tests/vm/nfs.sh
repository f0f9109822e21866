# SPDX-License-Identifier: MIT OR Apache-2.0
# A kernel NFS server in a network namespace of its own, and its client outside. For cases; lib.sh comes first.

SERVER=10.9.0.1
# The server's directories, on disks in memory: one as it is, one with 2 ms for each read. Drives that the host emulates would
# bring the host's own delays in.
EXPORTS=$MNT/server

# nfs_up MEGABYTES: starts the server with a file of that size, `data`, in each of fast/ and slow/.
nfs_up() {
	modprobe -a ext4 dm-delay nfsd nfs veth sch_netem
	modprobe brd rd_nr=2 rd_size=$((($1 * 2 + 64) * 1024)) max_part=0
	# Newer clients read files of a server on the same machine past the network.
	[ ! -e /sys/module/nfs/parameters/localio_enabled ] || echo N >/sys/module/nfs/parameters/localio_enabled
	local disk device
	device=/dev/ram1
	dmsetup create slow --table "0 $(sectors "$device") delay $device 0 2"
	for disk in fast:/dev/ram0 slow:/dev/mapper/slow; do
		mkfs.ext4 -q -F "${disk#*:}"
		mkdir -p "$EXPORTS/${disk%%:*}"
		mount "${disk#*:}" "$EXPORTS/${disk%%:*}"
		"$TOOLS/nfsread" fill "$EXPORTS/${disk%%:*}/data" "$1"
		cp "$EXPORTS/${disk%%:*}/data" "$EXPORTS/${disk%%:*}/other"
	done
	ip netns add server
	ip link add toserver type veth peer name toclient netns server
	ip addr add 10.9.0.2/24 dev toserver
	ip link set toserver up
	mkdir -p /var/lib/nfs/rpc_pipefs /var/lib/nfs/v4recovery
	touch /var/lib/nfs/etab /var/lib/nfs/rmtab
	# One shell for all of it: each `ip netns exec` has mounts of its own, and the server's control files are a mount.
	ip netns exec server bash -e -c "
		ip addr add $SERVER/24 dev toclient
		ip link set toclient up
		ip link set lo up
		mount -t nfsd nfsd /proc/fs/nfsd
		echo 10 >/proc/fs/nfsd/nfsv4gracetime
		echo 10 >/proc/fs/nfsd/nfsv4leasetime
		rpc.nfsd -N 3 8
		rpc.mountd -N 2 -N 3
		exportfs -o rw,fsid=0,no_subtree_check,insecure,no_root_squash,crossmnt '*:$EXPORTS'
		exportfs -o rw,fsid=1,no_subtree_check,insecure,no_root_squash '*:$EXPORTS/fast'
		exportfs -o rw,fsid=2,no_subtree_check,insecure,no_root_squash '*:$EXPORTS/slow'
	" || skip "no NFS server in a network namespace here"
	trap nfs_down EXIT
}

# nfs_delay MICROSECONDS: the time of a round trip, half on each way.
nfs_delay() {
	tc qdisc replace dev toserver root netem delay $(($1 / 2))us limit 20000
	ip netns exec server tc qdisc replace dev toclient root netem delay $(($1 / 2))us limit 20000
}

# nfs_mount fast|slow [OPTIONS]
nfs_mount() {
	mkdir -p "$MNT/client"
	mount -t nfs4 -o "vers=4.2,port=2049${2:+,$2}" "$SERVER:/$1" "$MNT/client"
}

nfs_down() {
	local at
	while mountpoint -q "$MNT/client"; do umount -l "$MNT/client" || break; done
	ip netns exec server bash -c "mount -t nfsd nfsd /proc/fs/nfsd; rpc.nfsd 0; exportfs -ua"
	pkill -x rpc.mountd
	ip link del toserver 2>/dev/null
	ip netns del server 2>/dev/null
	for at in 1 2 3 4 5; do
		umount "$EXPORTS/fast" "$EXPORTS/slow" 2>/dev/null
		grep -q "$EXPORTS" /proc/mounts || break
		sleep 1
	done
	dmsetup remove slow 2>/dev/null
	rmmod brd 2>/dev/null
	true
}
