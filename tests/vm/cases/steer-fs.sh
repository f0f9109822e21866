# SPDX-License-Identifier: MIT OR Apache-2.0
# Steering under ext4, xfs, f2fs and btrfs: file contents stay right while the policy changes, the model is swapped and
# the switch is toggled. The replicas hold the same file system, mounted read-only.
# vm: nvme=3:256M timeout=900
. tests/vm/lib.sh

load_module
for kind in slow fast busy:4 random:1; do
	python3 tests/vm/make_model.py $kind /run/m
	model "${kind%:*}.linnet" /run/m
done

# Changes every setting that can change, in a loop.
policy=(baseline shortest-queue ewma-inflight linnos linnet-best) kind=(slow fast busy random)
for ((n = 0; n < 1260; n++)); do
	echo "s policy ${policy[n % 5]}"
	echo "s load ${kind[n % 4]}.linnet"
	[ $((n % 7)) != 3 ] || echo "s unload"
	[ $((n % 9)) != 4 ] || printf 's %s\n' off on
	[ $((n % 5)) != 1 ] || echo "s load $((n % 3)) slow.linnet"
done >/run/disturb

for fs in "ext4 -q -F" "xfs -q -f --unsupported" "f2fs -q -f" "btrfs -q -f"; do
	set -- $fs
	type=$1
	shift
	modprobe "$type"
	mkfs."$type" "$@" "$(drive 0)" >/run/mkfs.log 2>&1 || { cat /run/mkfs.log; fail "mkfs.$type"; }
	mount -t "$type" "$(drive 0)" "$MNT"
	for i in 1 2 3 4; do dd if=/dev/urandom of="$MNT/$i" bs=1M count=2 status=none; done
	(cd "$MNT" && sha256sum 1 2 3 4) >/run/sums
	want=$(cat "$MNT"/[1234] | sha256sum)
	umount "$MNT"
	for k in 1 2; do blkdiscard -f -z "$(drive $k)"; dd if="$(drive 0)" of="$(drive $k)" bs=1M iflag=direct conv=sparse status=none; done

	device s 3 policy linnet-best model busy.linnet
	options=ro
	[ "$type" != ext4 ] || options=ro,noload
	[ "$type" != xfs ] || options=ro,norecovery,nouuid
	mount -t "$type" -o $options /dev/mapper/s "$MNT"
	nice -n 19 "$TOOLS/dmctl" messages repeat </run/disturb >/run/disturbed &
	disturber=$!
	for i in 1 2; do
		echo 3 >/proc/sys/vm/drop_caches
		(cd "$MNT" && sha256sum --quiet -c /run/sums) || fail "$type: data differ"
		got=$(for f in 1 2 3 4; do dd if="$MNT/$f" bs=64k iflag=direct status=none; done | sha256sum)
		expect "$type: direct reads" "$got" "$want"
	done
	kill $disturber
	wait $disturber
	reads="$(status s reads 0) $(status s reads 1) $(status s reads 2)"
	echo "$type: $(cat /run/disturbed); reads of the replicas: $reads"
	expect "$type: errors" "$(status s errors 0)$(status s errors 1)$(status s errors 2)" 000
	expect_some "$type: reads of replica 1" "$(status s reads 1)"
	expect_some "$type: reads of replica 2" "$(status s reads 2)"
	expect "$type: in flight at the end" "$(status s inflight 0)$(status s inflight 1)$(status s inflight 2)" 000
	umount "$MNT"
	dmsetup remove s
done
