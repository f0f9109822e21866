# SPDX-License-Identifier: MIT OR Apache-2.0
# linnet_tune while files and readers come and go: storms of opens, more files than it has room for, files deleted while
# they are read, readers killed, the module loaded and removed meanwhile, files truncated.
# vm: nvme=2:256M timeout=900
. tests/vm/lib.sh
. tests/vm/tune.sh

tune_disk
tune_file data 32
mkdir "$MNT/many"
for ((i = 0; i < 60; i++)); do head -c 256K /dev/urandom >"$MNT/many/$i"; done
sync
rm -f /run/go.* /run/paused.*

tune_module
background data until:/run/go.data:touch:60:1 done:/run/paused.data wait:/run/go.killed
reader=$!
decided data 8
# filereads' file has a value of ours from its next fault on.
reads data touch:1 cold fault:3000
for ((i = 0; i < 4; i++)); do reads data storm:150 & done
wait -n; wait -n; wait -n; wait -n || true
kill -KILL $reader
wait $reader || true
comes_to "open files with a value of ours after all have ended" 0 counter open_files

# Deleted while it is read, and its number given to another file.
tune_file gone 16
background gone until:/run/go.gone:touch:60:2 done:/run/paused.gone wait:/run/go.deleted touch:20:3
decided gone 8
rm "$MNT/gone"
tune_file next 16
expect "pages of a fault in the file that follows" "$(reads next cold fault:1000)" 32
touch /run/go.deleted
wait
# Truncated while it is read.
tune_file short 16
background short cold pread:60:4 done:/run/go.read wait:/run/go.short scan:100
comes_to "the reader" yes exists /run/go.read
truncate -s 4096 "$MNT/short"
touch /run/go.short
wait

# More files than there is room for: they are counted, and nothing else. One process reads all: files that were not read
# for five seconds make room, and on a slow machine many processes would take that long for 16 files.
rmmod linnet_tune
tune_module files_max=16
# Those that are only written take none.
for f in "$MNT"/many/*; do head -c 256K /dev/urandom >"$f"; done
expect "files that are observed after writing" "$(counter files)" 0
expect "events without room after writing" "$(counter lost)" 0
sync
for ((round = 0; round < 2; round++)); do
	echo 3 >/proc/sys/vm/drop_caches
	cat "$MNT"/many/* >/dev/null
done
expect_some "events without room" "$(counter lost)"
expect "files that are observed" "$(($(counter files) <= 18))" 1

# Loaded and removed while four readers read.
for ((i = 0; i < 4; i++)); do
	(while [ ! -e /run/go.end ]; do reads data cold touch:40:$i scan:256 storm:20 >/dev/null; done) &
done
for ((round = 0; round < 4; round++)); do
	rmmod linnet_tune
	sleep 0.2
	tune_module
	sleep 0.$((round % 5 + 1))
done
touch /run/go.end
wait
rmmod linnet_tune
expect "pages that a fault brings afterwards" "$(reads data cold fault:3000)" 32
