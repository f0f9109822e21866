# SPDX-License-Identifier: MIT OR Apache-2.0
# Readahead of an NFS mount at three round trips and on two disks: default, fixed values, `linnet tune nfs`. Prints tables.
# The machine's clock counts instructions, so the load of the host has no influence. FIGURES: options of nfs_figures.py.
# vm: host slow prints timeout=14400
set -o pipefail
: "${KERNEL:?}" "${VMLAB:?}"
[ -x .venv/bin/linnet ] || { echo "no .venv/bin/linnet (make build)"; exit 77; }
out=build/vm/nfs-figures-$KERNEL
mkdir -p "$out"
"$VMLAB" run --kernel "$KERNEL" --virtual-time --smp 1 --nvme 1:16M --mem 3072 --timeout 14000 --out "$out" \
	--console "$out/console" -- tests/vm/nfs-figures-guest.sh ${FIGURES:-} | tee "$out/tables"
