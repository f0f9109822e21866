#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The core as others use it: installed below a temporary root, or copied into a program's tree; with the commands and the
# program of docs/guide/embed.md. install.sh OUT MODEL, from core/; MODEL is a file with trees.
set -eu
out=$(realpath "$1") model=$(realpath "$2")
cc=${CC:-cc} cxx=${CXX:-g++}
guide=$(realpath ../docs/guide)
fail() { echo "install: $*" >&2; exit 1; }

# shellcheck disable=SC2016 # the backticks are Markdown's
sed -n '/^```c$/,/^```$/p' "$guide/embed.md" | sed '1d;$d' | diff - "$guide/embed.c" || fail "embed.md does not show embed.c"

# runs PROGRAM: all 2,000 reads went to a replica.
runs() {
	said=$("$1" "$model") || fail "$1 failed: $said"
	[ "$(echo "$said" | awk '{ n += $3 } END { print NR, n }')" = "3 2000" ] || fail "$1 said: $said"
	! "$1" "$guide/embed.md" 2>/dev/null || fail "$1 takes a page for a model"
}

# line N: the N-th command of the page that compiles, by this compiler.
line() { sed -n 's/^cc //p' "$guide/embed.md" | sed -n "$1p"; }

rm -rf "$out" && mkdir -p "$out/root" "$out/copy"
cp "$guide/embed.c" "$out/copy"
cp -r . "$out/copy/linnet"
cd "$out/copy"
eval "$cc $(line 2)"
eval "$cc $(line 3)"
runs ./embed
# What only decides needs these alone.
eval "$cc -I. embed.c $(sed -n 's/^\([a-z0-9_]*\) module.*/\1.o/p' linnet/UNITS | tr '\n' ' ') -pthread -o embed"
runs ./embed
rm -- *.o embed
cd - >/dev/null

make -s install CC="$cc" DESTDIR="$out/root" PREFIX=/opt/linnet >"$out/log" 2>&1 || { cat "$out/log"; fail "make install"; }
# The other library as where libraries are kept by architecture.
libdir=/opt/linnet/lib/this-arch
make -s -C ../lib install CC="$cc" DESTDIR="$out/root" PREFIX=/opt/linnet LIBDIR=$libdir OUT="$out/lib" >"$out/log" 2>&1 || { cat "$out/log"; fail "make -C lib install"; }
for header in "$out"/root/opt/linnet/include/linnet/*.h; do
	[ "${header##*/}" = reads.h ] || "$cc" -std=c11 -Wall -Wextra -Werror -fsyntax-only -x c "$header"
done
if [ "$(uname -m)" = x86_64 ]; then
	for symbol in linnet_dense linnet_prune linnet_trees_score linnet_loops; do
		for set in avx2 avx512; do
			nm "$out/root/opt/linnet/lib/liblinnet-core.a" | grep -q " [DTR] ${symbol}_$set$" || fail "no ${symbol}_$set in the archive"
		done
	done
fi
if ! command -v pkg-config >/dev/null; then
	echo "the core in a program: compiled in its tree; installed without a test of pkg-config: skipped, there is none"
	exit 0
fi
export PKG_CONFIG_PATH="$out/root/opt/linnet/lib/pkgconfig:$out/root$libdir/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$out/root"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' ../Cargo.toml | head -n 1)
for package in linnet-core linnet; do
	[ "$(pkg-config --modversion $package)" = "$version" ] || fail "$package.pc has not the version $version"
done
cd "$out/copy"
rm -r linnet
eval "$cc -Wall -Wextra -Werror $(line 1)"
runs ./embed
plus="no $cxx"
if command -v "$cxx" >/dev/null; then
	eval "$cxx -std=c++20 -Wall -Werror -x c++ embed.c -x none $(pkg-config --cflags --libs linnet-core) -pthread -o embed"
	runs ./embed
	plus="C++, too"
fi
echo '#include <liblinnet.h>
#include <linnet/linnet.h>
int main(void) { linnet_reader_close(NULL); return linnet_is_slow(1, 1); }' >both.c
eval "$cc both.c $(pkg-config --cflags --libs linnet-core linnet) -o both"
LD_LIBRARY_PATH="$out/root$libdir" ./both
echo "the core in a program: compiled in its tree, and installed with linnet-core.pc ($plus); with liblinnet as well"
