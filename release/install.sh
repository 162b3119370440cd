#!/bin/sh
# Installs shopmirror on a system without Debian packages, or removes it; run it as root.
#
#   ./install.sh            installs below /usr; nothing is started. An update restarts what runs
#   ./install.sh --remove   removes what this script installed; keeps /etc/shopmirror and the database
#
# DESTDIR=/some/root installs into another root and asks systemd for nothing.
set -eu
# Every user may read what is installed, whatever root's own umask is.
umask 022
cd "$(dirname "$0")"
root=${DESTDIR:-}
list=/usr/share/doc/shopmirror/installed-files

fail() {
    echo "install.sh: $1" >&2
    exit 1
}
live() { [ -z "$root" ] && [ -d /run/systemd/system ]; }

case ${1:-} in
--remove)
    [ -f "$root$list" ] || fail "shopmirror was not installed by this script"
    if live; then
        systemctl disable --now 'shopmirror.service' 'shopmirror-key.path' 2>/dev/null || true
        systemctl stop 'shopmirror@*.service' 'shopmirror-key@*.path' 2>/dev/null || true
    fi
    while read -r file; do rm -f "$root/$file"; done <"$root$list"
    rm -rf "$root/usr/share/doc/shopmirror"
    if live; then systemctl daemon-reload; fi
    echo "removed; /etc/shopmirror and /var/lib/shopmirror are kept: remove them yourself"
    exit
    ;;
'') ;;
*) fail "unknown argument $1: use --remove, or none" ;;
esac

[ -n "$root" ] || [ "$(id -u)" -eq 0 ] || fail "run this as root"
if [ -z "$root" ] && [ -d /var/lib/dpkg/info ] && [ -f /var/lib/dpkg/info/shopmirror.list ]; then
    fail "the Debian package of shopmirror is installed: remove it first"
fi
(cd files && find . -type f | sed 's#^\./##' | sort) | while read -r file; do
    target=$root/$file
    mkdir -p "$(dirname "$target")"
    # Beside its place and then renamed, because a running program cannot be written.
    cp "files/$file" "$target.new"
    chmod "$(stat -c %a "files/$file")" "$target.new"
    mv -f "$target.new" "$target"
done
(cd files && find . -type f | sed 's#^\./##' | sort) >"$root$list"
if live; then
    systemd-sysusers shopmirror.conf
    systemd-tmpfiles --create shopmirror.conf
    systemctl daemon-reload
    systemctl try-restart 'shopmirror.service' 'shopmirror@*.service'
fi
echo "installed; next: shopmirror init --systemd"
