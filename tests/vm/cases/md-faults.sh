# SPDX-License-Identifier: MIT OR Apache-2.0
# Every trusted leg holds every acknowledged write, while members fail, are removed, added again and rebuilt.
# vm: nvme=3:128M timeout=1200 alone
. tests/vm/lib.sh
. tests/vm/md.sh

ROUNDS=${ROUNDS:-2}
load_module
SEED=${SEED:-1}

# Leg K over a device whose table can be replaced: a linear one, or one that fails.
below() { echo "0 $LEG_SECTORS ${2:-linear} $([ "${2:-linear}" = error ] || echo "$(drive "$1") 0")"; }
swap() { dmsetup suspend --noflush "below$1"; dmsetup load "below$1" --table "$(below "$1" "$2")"; dmsetup resume "below$1"; }
alive() { kill -0 "$1" 2>/dev/null || { cat /run/check; fail "mdcheck has ended"; }; }
# loses K: leg K loses its trust with a write that it misses.
loses() {
	local try
	for try in {1..200}; do
		alive $check
		[ "$(status vol trust "$1")" != untrusted ] || return 0
		sleep 0.1
	done
	fail "leg $1 stays trusted"
}
# Writes go on in the background; every leg becomes trusted again.
recovered() {
	md_idle
	local try k left
	for try in {1..200}; do
		left=
		for ((k = 0; k < N; k++)); do
			[ "$(status vol trust $k)" = trusted ] || { trust vol $k || true; left=1; }
		done
		[ -n "$left" ] || return 0
		sleep 0.1
	done
	dmsetup status vol
	fail "legs stay untrusted"
}
readd() { take_out "$1"; mdadm "${2:---re-add}" $ARRAY "/dev/mapper/leg$1" || mdadm --add $ARRAY "/dev/mapper/leg$1"; }

for N in 2 3; do
	say "$N legs"
	for ((k = 0; k < N; k++)); do
		dmsetup create below$k --table "$(below $k)"
		md_leg $k /dev/mapper/below$k
	done
	md_array $N
	md_volume vol $N policy shortest-queue
	trust_all vol $N
	"$TOOLS/mdcheck" vol $((SEED + N)) 24 $(places $N) >/run/check 2>&1 &
	check=$!
	for ((round = 0; round < ROUNDS; round++)); do
		k=$(((round + N) % N))
		say "round $round, leg $k: failed in md, removed, added again"
		mdadm --fail $ARRAY /dev/mapper/leg$k; loses $k
		readd $k; alive $check; recovered

		say "its drive fails writes"
		swap $k error; loses $k
		swap $k linear; readd $k; alive $check; recovered

		say "it is removed, overwritten, and rebuilt from nothing"
		mdadm --fail $ARRAY /dev/mapper/leg$k; take_out $k
		dd if=/dev/urandom of=/dev/mapper/leg$k bs=1M count=40 oflag=direct status=none
		mdadm --zero-superblock /dev/mapper/leg$k || true
		mdadm --add $ARRAY /dev/mapper/leg$k; alive $check; recovered

		say "it is suspended and resumed; md checks and repairs"
		dmsetup suspend leg$k; dmsetup resume leg$k; recovered
		echo repair >$MD/sync_action; md_idle; alive $check; recovered
	done
	kill -TERM $check
	wait $check || { cat /run/check; fail "mdcheck found a fault"; }
	cat /run/check
	dmsetup status vol
	expect_some "reads past md" "$(status vol steered)"
	dmsetup remove vol
	echo check >$MD/sync_action; md_idle
	expect "mismatches" "$(cat $MD/mismatch_cnt)" 0
	mdadm --stop $ARRAY
	for ((k = 0; k < N; k++)); do dmsetup remove leg$k; dmsetup remove below$k; done
done
