#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Builds build/linnet-dkms_VERSION_all.deb. Needs debhelper and dh-dkms; the same tree and commit give the same bytes.
set -eu
cd "$(dirname "$0")/../.."
for tool in dh dh_dkms dpkg-buildpackage; do
	command -v "$tool" >/dev/null || { echo "missing: $tool; install it with: apt-get install debhelper dh-dkms dpkg-dev" >&2; exit 1; }
done
# A directory of its own, so that builds at the same time do not disturb each other.
mkdir -p build
work=$(mktemp -d build/deb.XXXXXX)
trap 'rm -rf "$work"' EXIT
stage=$work/linnet
mkdir "$stage"
version=$(sh kernel/package/source.sh "$stage/src")
cp -R kernel/package/debian "$stage/debian"
# Without a git checkout there is no commit date; then use today, because the template's date would be wrong.
seconds=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH="$seconds"
cat >"$stage/debian/changelog" <<CHANGES
linnet ($version) unstable; urgency=medium

  * Built from the project's tree; its CHANGELOG says what is new.

 -- The Linnet developers <linnet@localhost>  $(date -u -R -d "@$seconds")
CHANGES
(cd "$stage" && dpkg-buildpackage -b -us -uc >../build.log 2>&1) || { tail -30 "$work/build.log" >&2; exit 1; }
mv "$work"/linnet-dkms_"$version"_all.deb build/
echo "build/linnet-dkms_${version}_all.deb"
