#!/bin/busybox sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The init of the machine of power_cuts.py. cut_machine.py replaces the words in capitals.
export PATH=/bin DM_DISABLE_UDEV=1 MDADM_NO_UDEV=1
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /run/mdadm /dev/mapper
for m in $(cat /cut/modules); do insmod "/cut/$m" || echo "insmod $m failed"; done
for p in /sys/class/virtio-ports/*; do
	case $(cat "$p/name") in talk) talk=/dev/${p##*/} ;; account) account=/dev/${p##*/} ;; esac
done
exec 3<>"$talk"
# The machine is saved here; every cut starts from the saved state.
echo "ready" >&3
read -r begin noted <&3
echo "<4>WATCHED" >/dev/kmsg
insmod /cut/virtio_blk.ko
give_up() { echo "$1: $(tail -n 3 /cut/err | tr '\n' ' ')" >&3; sleep 1000; }
mdadm() { /cut/run mdadm "$@" >>/cut/err 2>&1; }
dm() { /cut/run dmsetup "$@" 2>>/cut/err; }
drive() {
	for b in /sys/block/vd*; do
		[ "$(cat "$b/serial")" = "cut$1" ] && echo "/dev/${b##*/}"
	done
}
md=/sys/block/md0/md
legs=
for k in LEGNAMES; do
	dm create leg$k --table "0 LEGSECTORS linnet-leg $(drive $k) 0" || give_up "leg $k"
	legs="$legs /dev/mapper/leg$k"
done
# What udev does before md sees the members.
MAYDIFFER
[ -z "$noted" ] || { mkdir -p /run/linnet; : >/run/linnet/vol.repair; }
for k in LEGNAMES; do may_differ vol "$(/cut/run mdadm --examine /dev/mapper/leg$k 2>/dev/null)"; done
if mdadm --examine /dev/mapper/leg0; then
	mdadm --assemble --run /dev/md0 $legs || give_up assemble
else
	mdadm --create /dev/md0 --run --level=1 --metadata=1.2 --bitmap=internal --bitmap-chunk=64K --data-offset=OFFSETKK \
		--size=SIZEK --raid-devices=LEGCOUNT $legs || give_up create
fi
mdadm --readwrite /dev/md0
# The passes that are read meanwhile would hold md back to 1 MB/s.
echo 100000 >$md/sync_speed_min
# A leg that md had failed before the cut is not fresh: it is not assembled, or md keeps it as faulty.
readd() { mdadm --re-add /dev/md0 /dev/mapper/leg$1 || mdadm --add /dev/md0 /dev/mapper/leg$1; }
revived=
for k in LEGNAMES; do
	case $(cat $md/dev-dm-$k/state 2>/dev/null) in
	*faulty*) mdadm --remove /dev/md0 /dev/mapper/leg$k ;;
	esac
	[ -e $md/dev-dm-$k ] || { readd $k || give_up "leg $k is not added again"; revived="$revived $k"; }
done
line="0 SECTORS linnet md /dev/md0 LEGCOUNT"
for k in LEGNAMES; do line="$line /dev/mapper/leg$k $(cat $md/dev-dm-$k/offset)"; done
dm create vol --table "$line 2 policy shortest-queue" || give_up volume
echo "assembled $(ls /run/linnet 2>/dev/null)" >&3
rebuilt() { [ "$(cat $md/sync_action)" = idle ] && [ "$(cat $md/resync_start)" = none ] && [ "$(cat $md/degraded)" = 0 ]; }
sum() { /cut/cutwriter VOLUME sum; }
# value KEY K: of leg K. As `linnet dm trust`: the generation first, then what md says.
value() {
	dm status vol | awk -v key="$1" -v leg="$2" '{ for (i = 1; i < NF; i++) { k += $i == "dev"; if ($i == key && k == leg + 1) { print $(i + 1); exit } } }'
}
trust() {
	generation=$(value generation $1)
	[ "$(cat $md/dev-dm-$1/state)" = in_sync ] && rebuilt && [ -z "$(cat $md/dev-dm-$1/bad_blocks)" ] &&
		[ -z "$(cat $md/dev-dm-$1/unacknowledged_bad_blocks)" ] && dm message vol 0 trust $1 $generation
}
all_trusted() {
	for k in LEGNAMES; do
		[ "$(value trust $k)" = untrusted ] || continue
		trust $k || return 1
	done
}
# Where members may differ in what was being written, md itself reads the one or the other.
same() { [ -e /run/linnet/vol.repair ] || [ "$first" = "$(sum)" ] || echo "flip" >&3; }
first=$(sum) passes=1
while ! rebuilt; do
	passes=$((passes + 1))
	same
	[ $passes -lt 100 ] ||
		give_up "md never ends its work: $(cat $md/array_state $md/sync_action $md/resync_start $md/degraded $md/dev-*/state | tr '\n' ' ')"
done
same
repaired=
if [ -e /run/linnet/vol.repair ]; then # as `linnet dm trust` asks for
	echo repair >$md/sync_action || give_up repair
	until rebuilt; do sleep 0.01; done
	[ "$(cat $md/last_sync_action)" = repair ] || give_up "md did $(cat $md/last_sync_action)"
	repaired=" repaired"
fi
# Nothing is flushed here that the product does not flush. The write that trust waits for has the bytes that are there.
all_trusted || give_up trust
/cut/cutwriter VOLUME touch || give_up touch
for k in LEGNAMES; do [ "$(value trust $k)" = trusted ] || give_up "leg $k is not trusted"; done
echo "synced $passes $(sum) $(dm status vol | sed 's/.* steered \([0-9]*\) .*/\1/')$revived$repaired" >&3
# leaves K DELAY BACK: md fails leg K during the load; with BACK above 0 it returns, is rebuilt and trusted.
leaves() {
	sleep $2
	mdadm --fail /dev/md0 /dev/mapper/leg$1; mdadm --remove /dev/md0 /dev/mapper/leg$1
	[ $3 = 0 ] && return
	sleep 0.2
	readd $1 || { echo "leg $1 is not added again: $(tail -n 1 /cut/err)" >&3; return; }
	echo "added" >&3
	until rebuilt && all_trusted; do sleep 0.01; done
	echo "trusted" >&3
}
while read -r word leg rest <&3; do
	if [ "$word" = check ]; then # the rest of the line is for fio
		/cut/run fio $leg $rest >/cut/err 2>&1
		status=$?
		reads=$(sed -n 's/.* issued rwts: total=\([0-9]*\).*/\1/p' /cut/err | awk '{n += $1} END {print n + 0}')
		echo "checked $status $reads $(grep -E '^(verify|fio|crc32c):' /cut/err | tail -n 2 | tr '\n' ' ')" >&3
		continue
	fi
	set -- $rest
	delay=$1 back=$2
	shift 2
	[ "$leg" = - ] || leaves "$leg" "$delay" "$back" &
	case WRITER in
	fio) /cut/run fio --debug=io "$@" >"$account" 2>&1 ;;
	*) /cut/cutwriter VOLUME "$account" "$@" >/cut/err 2>&1 ;;
	esac
	echo "writer ended: $(cat /cut/err)" >&3
	sleep 1000
done
