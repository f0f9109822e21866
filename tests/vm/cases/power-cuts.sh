# SPDX-License-Identifier: MIT OR Apache-2.0
# The power goes while a mirror is written: nothing acknowledged is lost, nothing is torn, the legs agree.
# CUTS=100 for more, WRITER=fio for fio and what it verifies; tests/vm/power_cuts.py --help says what is done.
# vm: host timeout=3600
set -euo pipefail
command -v nbdkit >/dev/null || { echo "skipped: no nbdkit"; exit 77; }
exec python3 tests/vm/power_cuts.py "${CUTS:-3}" --kernel "$KERNEL" --seed "${SEED:-1}" \
	--writer "${WRITER:-cutwriter}" --module "$MODULES/dm-linnet.ko"
