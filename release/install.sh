#!/bin/sh
# Installs shopmirror on a system without Debian packages, or removes it; run it as root.
#
#   ./install.sh            installs below /usr; nothing is started. An update restarts what runs and
#                           removes the files that the older version had and this one has not
#   ./install.sh --remove   removes what this script installed; keeps /etc/shopmirror and the database
#
# DESTDIR=/some/root installs into another root and asks systemd for nothing.
set -eu
export LC_ALL=C
# Every user may read what is installed, whatever root's own umask is.
umask 022
cd "$(dirname "$0")"
root=${DESTDIR:-}
doc=/usr/share/doc/shopmirror
list=$root$doc/installed-files

fail() {
    echo "install.sh: $1" >&2
    exit 1
}
live() { [ -z "$root" ] && [ -d /run/systemd/system ]; }
shipped() { (cd files && find . -type f | sed 's#^\./##' | sort); }
# Removes the files that standard input names, and the folders of the documents that become empty.
forget() {
    while read -r file; do rm -f "$root/$file"; done
    if [ -d "$root$doc" ]; then find "$root$doc" -depth -type d -empty -delete; fi
}

[ -n "$root" ] || [ "$(id -u)" -eq 0 ] || fail "run this as root"
# After `apt remove` dpkg keeps its list for the configuration files.
packaged() {
    [ -f "$root/var/lib/dpkg/info/shopmirror.list" ] || return 1
    ! command -v dpkg-query >/dev/null ||
        [ "$(dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${db:Status-Status}' shopmirror 2>/dev/null)" != config-files ]
}
if packaged; then
    fail "the Debian package of shopmirror is installed: update it with apt, or remove it first"
fi

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
case ${1:-} in
--remove)
    [ -f "$list" ] || fail "shopmirror was not installed by this script"
    if live; then
        systemctl stop shopmirror.service shopmirror-key.path 'shopmirror@*.service' \
            'shopmirror-key@*.path' 2>/dev/null || true
    fi
    # Only our own units: an admin may have others whose names begin alike.
    for unit in shopmirror.service 'shopmirror@*.service' shopmirror-key.path 'shopmirror-key@*.path'; do
        # The name is a pattern.
        # shellcheck disable=SC2086
        rm -f "$root"/etc/systemd/system/*.wants/$unit
    done
    # The list itself is the last, so that a removal that was interrupted can be run again.
    { cat "$list" && echo "${list#"$root"/}"; } >"$made/files"
    forget <"$made/files"
    if live; then systemctl daemon-reload; fi
    echo "removed; /etc/shopmirror and /var/lib/shopmirror are kept: remove them yourself"
    exit
    ;;
'') ;;
*) fail "unknown argument $1: use --remove, or none" ;;
esac

[ -d files ] || fail "the folder files is missing: unpack the whole archive, and run this in its folder"
shipped >"$made/new"
if [ -f "$list" ]; then sort "$list" >"$made/old"; else : >"$made/old"; fi
! live || files/usr/bin/shopmirror --version >/dev/null 2>&1 ||
    fail "the program does not run here: it needs the C library 2.36 or later (Debian 12); nothing was changed"
# Until all files are in place, the list has those of both versions: an update that was interrupted
# is completed by another run, and can be removed.
mkdir -p "$root$doc"
sort -u "$made/old" "$made/new" >"$list"
while read -r file; do
    target=$root/$file
    mkdir -p "$(dirname "$target")"
    # Beside its place and then renamed, because a running program cannot be written.
    cp "files/$file" "$target.new"
    chmod "$(stat -c %a "files/$file")" "$target.new"
    mv -f "$target.new" "$target"
done <"$made/new"
comm -23 "$made/old" "$made/new" | forget
cp "$made/new" "$list"
if live; then
    systemd-sysusers shopmirror.conf
    systemd-tmpfiles --create shopmirror.conf
    systemctl daemon-reload
    systemctl try-restart 'shopmirror.service' 'shopmirror@*.service'
fi
echo "installed; next: shopmirror init --systemd"
