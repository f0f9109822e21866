#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Each public header of the core is complete by itself, in C and in C++, where the core's functions keep their names in C:
# headers.sh CORE OUT HEADER...
set -eu
core=$1 out=$2
shift 2
cc=${CC:-cc} cxx=${CXX:-g++}
for file in "$core"/*.h; do
	name=$(basename "$file" .h)
	case " $* reads " in # readahead.h includes reads.h, which is for BPF programs, too
	*" $name "*) ;;
	*) grep -q 'public interface' "$file" || { echo "$name.h: neither a public header nor said to be none" >&2; exit 1; } ;;
	esac
done

# include HEADER: a unit that takes it twice and alone, and uses an error if the header speaks of one.
include() {
	printf '#include "%s.h"\n#include "%s.h"\n' "$1" "$1"
	! grep -q LINNET_E_ "$core/$1.h" || echo "int error = LINNET_E_FIELD;"
}
for header; do
	include "$header" >"$out/$header.c"
	"$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$core" -fsyntax-only "$out/$header.c"
done
if ! command -v "$cxx" >/dev/null; then
	echo "public headers: $# in C; in C++ skipped, there is no $cxx"
	exit 0
fi
count=0
for header; do
	functions=$(sed -n 's/^[a-z].*[ *]\(linnet_[a-z0-9_]*\)(.*/	(void *)\1,/p' "$core/$header.h")
	{
		include "$header"
		[ -z "$functions" ] || printf 'void *functions[] = {\n%s\n};\n' "$functions"
	} >"$out/$header.cpp"
	"$cxx" -std=c++17 -Wall -Wextra -Wpedantic -Werror -I"$core" -c "$out/$header.cpp" -o "$out/$header.o"
	mangled=$(nm -u "$out/$header.o" | grep -c ' _Z' || true)
	[ "$mangled" = 0 ] || { echo "$header.h: $mangled functions are not extern \"C\"" >&2; exit 1; }
	found=$(nm -u "$out/$header.o" | grep -c ' linnet_' || true)
	case $header in
	linnet | errors | port) ;;
	*) [ "$found" -gt 0 ] || { echo "$header.h: no function found" >&2; exit 1; } ;;
	esac
	count=$((count + found))
done
echo "public headers: $# in C and in C++, where $count functions are those of C"
