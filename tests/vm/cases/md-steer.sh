# SPDX-License-Identifier: MIT OR Apache-2.0
# A volume above md: writes go through md, reads past it; what gives a leg trust, and what takes it away.
# vm: nvme=3:128M timeout=900 alone
. tests/vm/lib.sh
. tests/vm/md.sh

load_module
md_legs 2
md_array 2
line="0 $(sectors $ARRAY) linnet md $ARRAY"
say "tables that are refused"
refuses dmsetup create bad --table "$line 1 /dev/mapper/leg0 0 0"
refuses dmsetup create bad --table "$line 2 /dev/mapper/leg0 0 /dev/mapper/leg0 0 0"
refuses dmsetup create bad --table "$line 2 /dev/mapper/leg0 0 $(drive 2) 0 0"
refuses dmsetup create bad --table "$line 2 /dev/mapper/leg0 0 /dev/mapper/leg1 0 1 revoke"
refuses dmsetup create bad --table "$line 2 /dev/mapper/leg0 0 /dev/mapper/leg1 0 5 log core 2 1024 nosync"

md_volume vol 2 policy shortest-queue
major=$(awk '$2 == "device-mapper" { print $1 }' /proc/devices)
expect "table" "$(dmsetup table vol)" "0 $(sectors $ARRAY) linnet md 9:0 2 $major:0 $(member_offset 0) $major:1 $(member_offset 1) 2 policy shortest-queue"
refuses dmsetup create second --table "$(dmsetup table vol)"
refuses message vol revoke on
expect "stable pages" "$(cat "/sys/block/$(dmsetup info -c --noheadings -o blkdevname vol)/queue/stable_writes")" 1

say "trust waits for a first write"
expect "at first" "$(trusted vol 2)" "untrusted untrusted "
expect "why" "$(status vol why 0)" new
trust vol 0; trust vol 1
expect "before a write" "$(trusted vol 2)" "pending pending "
dd if=/dev/mapper/vol of=/dev/null bs=4k count=20 iflag=direct status=none
expect "reads past md while nothing is trusted" "$(status vol steered)" 0
dd if=/dev/urandom of=/dev/mapper/vol bs=4k count=1 oflag=direct status=none
expect "after a write" "$(trusted vol 2)" "trusted trusted "
dd if=/dev/mapper/vol of=/dev/null bs=4k count=200 iflag=direct status=none
expect "reads past md" "$(status vol steered)" 200
for word in off "policy baseline"; do
	message vol $word
	dd if=/dev/mapper/vol of=/dev/null bs=4k count=20 iflag=direct status=none
	expect "reads past md under '$word'" "$(status vol steered)" 200
	message vol on
	message vol policy shortest-queue
done

say "ext4: exactly the volume's writes reach the legs, nothing unknown"
mkfs.ext4 -q /dev/mapper/vol
mount /dev/mapper/vol "$MNT"
cp -r core "$MNT"
(cd "$MNT" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >/run/sums
fstrim "$MNT"
rm -r "$MNT/core/tree.c"; fstrim "$MNT"
cp core/tree.c "$MNT/core"
umount "$MNT"
fsck.ext4 -fn /dev/mapper/vol >/dev/null
expect "the legs" "$(trusted vol 2)" "trusted trusted "
for k in 0 1; do expect "short, failed, unknown" "$(status vol short $k) $(status vol failed $k) $(status vol unknown $k)" "0 0 0"; done

say "a drive below the table's offset, or at another: no write proves it"
dmsetup remove vol
dmsetup create vol --table "0 $(sectors $ARRAY) linnet md $ARRAY 2 /dev/mapper/leg0 $(member_offset 0) /dev/mapper/leg1 $(($(member_offset 1) + 8)) 0"
trust vol 0; trust vol 1
dd if=/dev/zero of=/dev/mapper/vol bs=4k count=1 seek=4000 oflag=direct status=none
expect "after a write elsewhere" "$(trusted vol 2)" "untrusted untrusted "
dmsetup remove vol
md_volume vol 2 policy shortest-queue
trust_all vol 2

say "a write around the volume"
old=$(status vol generation 0)
dd if=/dev/urandom of=$ARRAY bs=4k count=1 seek=5000 conv=fsync status=none 2>/run/around
expect "the legs" "$(trusted vol 2)" "untrusted untrusted "
expect "why" "$(status vol why 0)" unknown
say "an old generation"
refuses message vol trust 0 "$old"
refuses message vol trust 2 1
refuses message vol trust 0 x
trust_all vol 2

say "a check finds the legs equal, and takes no trust"
echo check >$MD/sync_action; md_idle
expect "mismatches" "$(cat $MD/mismatch_cnt)" 0
expect "after a check" "$(trusted vol 2)" "trusted trusted "

say "a leg is suspended, and the volume"
dmsetup suspend leg0; dmsetup resume leg0
expect "the legs" "$(trusted vol 2)" "untrusted trusted "
expect "why" "$(status vol why 0)" suspended
trust_all vol 2
dmsetup suspend vol; dmsetup resume vol
expect "the legs" "$(trusted vol 2)" "untrusted untrusted "
trust_all vol 2
dmsetup message vol 0 distrust
expect "the legs" "$(trusted vol 2)" "untrusted untrusted "
expect "why" "$(status vol why 1)" told
trust_all vol 2

say "one write is in flight when a leg fails, and one that overlaps it comes"
dmsetup remove vol; mdadm --stop $ARRAY; dmsetup remove leg0; dmsetup remove leg1
modprobe dm-delay
for k in 0 1; do
	dmsetup create slow$k --table "0 $LEG_SECTORS delay $(drive $k) 0 0 $(drive $k) 0 1500"
	md_leg $k /dev/mapper/slow$k
done
mdadm --assemble $ARRAY /dev/mapper/leg0 /dev/mapper/leg1
md_idle
md_volume vol 2 policy shortest-queue
trust_all vol 2
head -c 64k /dev/zero | tr '\0' 2 >/run/w2
head -c 64k /dev/zero | tr '\0' 1 >/run/w1
dd if=/run/w2 of=/dev/mapper/vol bs=64k seek=100 oflag=direct status=none &
w2=$!
sleep 0.5
mdadm --fail $ARRAY /dev/mapper/leg1
expect "still trusted: it has missed nothing" "$(trusted vol 2)" "trusted trusted "
dd if=/run/w1 of=/dev/mapper/vol bs=64k seek=100 oflag=direct status=none
wait $w2
expect "after the second write" "$(trusted vol 2)" "trusted untrusted "
expect "held back" "$(status vol held)" 1
expect "why" "$(status vol why 1)" short
for try in 1 2 3 4; do dd if=/dev/mapper/vol bs=64k skip=100 count=1 iflag=direct status=none | cmp - /run/w1; done
refuses trust vol 1

say "without the volume: a plain array, and equal data"
data=$(sum_of /dev/mapper/vol 32)
for k in 0 1; do
	dmsetup suspend slow$k
	dmsetup load slow$k --table "0 $LEG_SECTORS linear $(drive $k) 0"
	dmsetup resume slow$k
done
mdadm --remove $ARRAY /dev/mapper/leg1; mdadm --add $ARRAY /dev/mapper/leg1; md_idle
dmsetup remove vol; mdadm --stop $ARRAY
for k in 0 1; do dmsetup remove leg$k; dmsetup remove slow$k; done
mdadm --assemble $ARRAY "$(drive 0)" "$(drive 1)"
md_idle
expect "data" "$(sum_of $ARRAY 32)" "$data"
echo check >$MD/sync_action; md_idle
expect "mismatches" "$(cat $MD/mismatch_cnt)" 0
mdadm --stop $ARRAY
