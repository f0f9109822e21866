#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# C++ can include the core's public headers, and finds the core's functions under their names in C.
set -eu
core=$1 out=$2
cxx=${CXX:-g++}
if ! command -v "$cxx" >/dev/null; then
	echo "headers in C++: skipped, there is no $cxx"
	exit 0
fi
count=0
for header in linnet train tune readahead place ledger port; do
	source=$out/$header.cpp
	case $header in
	linnet) parts="feature model decide" ;; # which it includes
	*) parts=$header ;;
	esac
	{
		echo "#include \"$header.h\""
		echo "void *functions[] = {"
		for part in $parts; do
			sed -n 's/^[a-z].*[ *]\(linnet_[a-z0-9_]*\)(.*/	(void *)\1,/p' "$core/$part.h"
		done
		echo "};"
	} >"$source"
	"$cxx" -std=c++17 -Wall -Werror -I"$core" -c "$source" -o "$out/$header.o"
	mangled=$(nm -u "$out/$header.o" | grep -c ' _Z' || true)
	[ "$mangled" = 0 ] || { echo "$header.h: $mangled functions are not extern \"C\"" >&2; exit 1; }
	found=$(nm -u "$out/$header.o" | grep -c ' linnet_' || true)
	[ "$header" = port ] || [ "$found" -gt 0 ] || { echo "$header.h: no function found" >&2; exit 1; }
	count=$((count + found))
done
echo "headers in C++: $count functions of the core are those of C"
