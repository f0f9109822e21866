#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests what a program sees of liblinnet before it runs: the header in C and C++, the target, the exported symbols.
set -eu
out=$1
CC=${CC:-gcc} CXX=${CXX:-g++}
fail() { echo "test-build: $*" >&2; exit 1; }

# The header alone declares exactly what the library exports, each with its version.
declared=$(sed -n 's/^[a-z].*[ *]\(linnet_[a-z_]*\)(.*/\1/p' liblinnet.h | sort)
exported=$(nm -D --defined-only "$out/liblinnet.so.1" | sed -n 's/.* T \(.*\)/\1/p' | sort)
[ "$(echo "$declared" | sed 's/$/@@LIBLINNET_1/')" = "$exported" ] || fail "exported: $exported; declared: $declared"

# The manual page names each and has its line in the synopsis; and its errors are those that the header names.
for name in $declared; do
	sed -n '/^\.SH NAME/,/^\.SH SYN/p' linnet_read.3 | grep -qw "$name" || fail "linnet_read.3 does not name $name"
	grep -q "^\.BI \".*$name(" linnet_read.3 || fail "linnet_read.3 has no synopsis of $name"
done
errors=$(sed -n '/^struct linnet_reader;/,$p' liblinnet.h | grep -o '\<E[A-Z][A-Z]*\>' | sort -u)
for error in $errors; do
	sed -n '/^\.SH ERRORS/,/^\.SH NOTES/p' linnet_read.3 | grep -q "^\.B $error$" || fail "linnet_read.3 has no error $error"
done

echo '#include "liblinnet.h"' | "$CC" -std=c11 -Wall -Wextra -Werror -pedantic -I. -fsyntax-only -x c -
# Without extensions time.h has no struct timespec before C11.
echo '#include "liblinnet.h"' | "$CC" -std=c99 -Wall -Wextra -Werror -I. -fsyntax-only -x c - || fail "C99"
cxx=skipped
if command -v "$CXX" >/dev/null; then
	echo '#include "liblinnet.h"' | "$CXX" -std=c++17 -Wall -Wextra -Werror -I. -fsyntax-only -x c++ - || fail "C++"
	cxx=C++
fi

# One program can have the core as well: in both orders, and under different names.
beside() {
	units=$(printf '#include "%s.h"\n' "$@")
	echo "$units" | "$CC" -std=c11 -Wall -Wextra -Werror -pedantic -I. -I../core -fsyntax-only -x c - || fail "C: $*"
	[ $cxx = skipped ] || echo "$units" | "$CXX" -std=c++17 -Wall -Wextra -Werror -I. -I../core -fsyntax-only -x c++ - ||
		fail "C++: $*"
}
beside liblinnet linnet train tune readahead place ledger
beside linnet train tune readahead place ledger liblinnet
core=$(sed -n 's/^[a-z].*[ *]\(linnet_[a-z0-9_]*\)(.*/\1/p' ../core/*.h | sort -u)
shared=$(printf '%s\n' "$declared" "$core" | sort | uniq -d)
[ -z "$shared" ] || fail "also a function of the core: $shared"

# 32 bits are refused by the header's own words, before it includes one that may be missing there.
narrow=skipped
if echo | "$CC" -m32 -E -x c - >/dev/null 2>&1; then
	echo '#include "liblinnet.h"' | "$CC" -m32 -I. -fsyntax-only -x c - 2>&1 | grep -q 'liblinnet needs a 64-bit target' ||
		fail "a 32-bit target is taken"
	narrow=refused
fi
echo "liblinnet.h: C; C++ ($cxx); 32 bits ($narrow); $(echo "$exported" | wc -l) exported functions"
