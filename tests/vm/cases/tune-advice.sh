# SPDX-License-Identifier: MIT OR Apache-2.0
# `linnet tune` sees advice by posix_fadvise and by madvise on stock kernels, and leaves such files alone.
# vm: nvme=2:256M timeout=600 mem=2048
. tests/vm/lib.sh
. tests/vm/tune.sh
[ -x .venv/bin/linnet ] || skip "no .venv/bin/linnet (make build)"

tune_disk
tune_file data 32

# What is said of the file while a reader has done these steps.
said() {
	rm -f /run/go.* /run/paused.*
	background data "$@" touch:3 done:/run/paused.data wait:/run/go.data
	local reader=$!
	comes_to "the reader" yes exists /run/paused.data
	.venv/bin/linnet tune files "$MNT/data" --json | python3 -c 'import json,sys; print(*{row["left_alone"] for row in json.load(sys.stdin)["rows"]})'
	touch /run/go.data
	wait $reader
}

expect "without advice" "$(said)" None
expect "the open file" "$(said advise:random)" "its owner advised RANDOM"
expect "its mapping, at random" "$(said madvise:random)" "it is mapped with MADV_RANDOM"
expect "its mapping, in order" "$(said madvise:sequential)" "it is mapped with MADV_SEQUENTIAL"
