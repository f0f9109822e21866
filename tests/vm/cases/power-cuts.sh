# SPDX-License-Identifier: MIT OR Apache-2.0
# The power fails while a volume above md is written or rebuilt, or was just given trust: no acknowledged write is
# lost, none is torn, the legs agree. CUTS=100 for more cuts, WRITER=fio for fio with its own verification;
# tests/vm/power_cuts.py --help explains the procedure.
# vm: host timeout=3600
set -euo pipefail
command -v nbdkit >/dev/null || { echo "skipped: no nbdkit"; exit 77; }
exec python3 tests/vm/power_cuts.py "${CUTS:-3}" --kernel "$KERNEL" --seed "${SEED:-1}" \
	--writer "${WRITER:-cutwriter}" --module "$MODULES/dm-linnet.ko"
