# SPDX-License-Identifier: MIT OR Apache-2.0
# An NFS server on a steered device: the client reads the right data, and the target decides on the server's reads.
# vm: nvme=3:256M timeout=240
. tests/vm/lib.sh

load_module
python3 tests/vm/make_model.py busy:4 /run/m
model busy.linnet /run/m
modprobe -a ext4 nfsd nfs
mkfs.ext4 -q -F "$(drive 0)"
mount "$(drive 0)" "$MNT"
for i in 1 2 3; do dd if=/dev/urandom of="$MNT/$i" bs=1M count=4 status=none; done
(cd "$MNT" && sha256sum 1 2 3) >/run/sums
umount "$MNT"
for k in 1 2; do dd if="$(drive 0)" of="$(drive $k)" bs=1M iflag=direct oflag=direct status=none; done
device s 3 policy linnet-best model busy.linnet
mkdir -p "$MNT/server" "$MNT/client"
mount -o ro,noload /dev/mapper/s "$MNT/server"
mkdir -p /proc/fs/nfsd /var/lib/nfs/rpc_pipefs
mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
# mountd fills the server's export caches; without a network it must answer at once.
rpc.nfsd -N 3 4 || skip "no NFS server here"
rpc.mountd -N 2 -N 3 || { rpc.nfsd 0; skip "no mountd here"; }
exportfs -o ro,fsid=0,no_subtree_check,insecure "*:$MNT/server"
undo() { umount "$MNT/client" 2>/dev/null; exportfs -ua; rpc.nfsd 0; pkill rpc.mountd; umount "$MNT/server"; umount /proc/fs/nfsd; true; }
trap undo EXIT
mount -t nfs4 -o ro,port=2049 127.0.0.1:/ "$MNT/client" || skip "the client cannot mount"
before=$(status s decisions)
for i in 1 2; do
	echo 3 >/proc/sys/vm/drop_caches
	(cd "$MNT/client" && sha256sum --quiet -c /run/sums) || fail "data differ"
	message s policy shortest-queue
done
expect_some "decisions" "$(($(status s decisions) - before))"
echo "decisions: $(($(status s decisions) - before)); reads: $(status s reads 0) $(status s reads 1) $(status s reads 2)"
