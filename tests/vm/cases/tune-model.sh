# SPDX-License-Identifier: MIT OR Apache-2.0
# Models of linnet_tune: a file that user space made decides in the kernel; the kernel trains on and gives the file back;
# bad files are refused and change nothing.
# vm: nvme=2:256M timeout=400
. tests/vm/lib.sh
. tests/vm/tune.sh

tune_disk
tune_file data 32
tune_file ordered 32
rm -f /run/go.* /run/paused.*
model m crates/tune/tests/readahead-1.linnet

refuses tune_module model=nothing
model half <(head -c 300 crates/tune/tests/readahead-1.linnet)
refuses tune_module model=half
model large <(head -c 200K /dev/zero)
refuses tune_module model=large
log_since | grep 'linnet_tune: model:'
[ ! -d /sys/module/linnet_tune ] || fail "the module stayed after a refused model"

tune_module model=m
expect_like "the model" "$(grep '^model' $DEBUG/status)" 'model m classes 2 network 1 tree 1'
cmp $DEBUG/model crates/tune/tests/readahead-1.linnet || fail "an untrained model is another file"
refuses bash -c "echo half >$PARAMETERS/model"
refuses bash -c "echo ../m >$PARAMETERS/model"
expect "the model after refused ones" "$(cat $PARAMETERS/model)" m
refuses bash -c "echo 2 >$PARAMETERS/learn"

background data until:/run/go.data:touch:60:1 done:/run/paused.data wait:/run/go.end
background ordered until:/run/go.ordered:scan:8000 done:/run/paused.ordered wait:/run/go.end
decided data 8
decided ordered 512
expect "decisions that are the model's" "$(grep -c 'by the model' $DEBUG/decisions)" "$(wc -l <$DEBUG/decisions)"
cat $DEBUG/decisions
expect "pages of a fault at random" "$(reads data cold fault:4000)" 2
expect "pages of a fault in the other file" "$(reads ordered cold fault:4000)" 128

# Training in the kernel: random reads are class 1 from now on.
echo 1 >$PARAMETERS/learn
for ((i = 0; i < 40 && $(counter learned) < 4; i++)); do
	reads data cold touch:40:$i
	sleep 0.5
done
echo -1 >$PARAMETERS/learn
expect_some "rows learned" "$(counter learned)"
expect "rows refused" "$(counter refused)" 0
cat $DEBUG/model >/run/learned
expect "the size of the model" "$(stat -c %s /run/learned)" "$(stat -c %s crates/tune/tests/readahead-1.linnet)"
if cmp -s /run/learned crates/tune/tests/readahead-1.linnet; then fail "training changed nothing"; fi
rows=$(counter learned)
# Rows that the normaliser has learned: 1000 in the file, at byte 48.
expect "rows in the file" "$(od -A n -t u8 -j 48 -N 8 /run/learned | tr -d ' ')" $((1000 + rows))
# What was learned is a model file that loads again, unchanged.
model learned /run/learned
echo learned >$PARAMETERS/model
cmp $DEBUG/model /run/learned || fail "the learned model is another file after loading"
echo >$PARAMETERS/model
expect "the model when there is none" "$(grep '^model' $DEBUG/status)" "model none"
expect "its file" "$(wc -c <$DEBUG/model)" 0
touch /run/go.end
wait
rmmod linnet_tune
