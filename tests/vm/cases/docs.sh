# SPDX-License-Identifier: MIT OR Apache-2.0
# Every command of docs/guide/dm.md must give the output that the page shows.
# vm: nvme=5:64M timeout=900 alone
. tests/vm/lib.sh
[ -x .venv/bin/linnet ] || skip "no .venv/bin/linnet (make build)"
[ -x build/lib/linnet-load ] || skip "no build/lib/linnet-load (make lib)"
# What a user has after installing the package: the module where modprobe finds it, the commands in the path, drives
# with data on three of them, and a model.
[ -e "$MODULES/dm-linnet.ko" ] || skip "no $MODULES/dm-linnet.ko"
install_module "$MODULES/dm-linnet.ko"
export MDADM_NO_UDEV=1
for k in 0 1 2; do fill "/dev/nvme${k}n1" 16; done
# Drives begin filled with zeros; the fourth and fifth stay so.
page=$PWD/docs/guide/dm.md python=$PWD/.venv/bin/python runner=$PWD/tests/vm/page.py
export PATH=$PWD/.venv/bin:$PWD/build/lib:$PATH
mkdir -p /run/page
python3 tests/vm/make_model.py busy:4 /run/page/m.linnet
python3 tests/vm/make_model.py slow /run/page/slow.linnet
cd /run/page
"$python" "$runner" "$page" ${SHOW:+--show}
