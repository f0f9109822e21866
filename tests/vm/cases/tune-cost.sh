# SPDX-License-Identifier: MIT OR Apache-2.0
# What an event costs, in instructions: with empty handlers at the same places, with the kernel module, and with the BPF
# observer of `linnet tune readahead`, in one run. The machine's clock counts instructions, so that the load of the host has
# no influence. Prints a table. OBSERVER is another command in place of `linnet tune readahead`.
# vm: host slow prints timeout=3600
: "${KERNEL:?}" "${VMLAB:?}" "${MODULES:?}"
[ -x .venv/bin/linnet ] || { echo "no .venv/bin/linnet (make build)"; exit 77; }
[ -e "$MODULES/tune/linnet-tune.ko" ] || { echo "no $MODULES/tune/linnet-tune.ko"; exit 77; }
out=build/vm/tune-cost-$KERNEL
mkdir -p "$out"
"$VMLAB" run --kernel "$KERNEL" --virtual-time --smp 1 --nvme 1:16M --timeout 3500 --out "$out" \
	--console "$out/console" -- tests/vm/tune-cost-guest.sh "$MODULES" "${ROUNDS:-1000}" \
	${OBSERVER:-.venv/bin/linnet tune readahead --device /dev/ram0 --watch --dry-run --json} | tee "$out/table"
# The module counts: its handlers cost more than empty ones, and that every read of a page is seen. (The head's first word
# is `read`, too.)
awk -F '|' '$2 ~ /^ (read|bring) $/ && $3 + 0 > 0 { seen++; if ($7 + 0 <= $6 + 0) exit 1 } END { exit seen != 2 }' "$out/table"
