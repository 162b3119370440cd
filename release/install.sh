#!/bin/sh
# Adds the package repository of shopmirror to this machine, installs shopmirror, and asks what it needs to know. As root:
#
#   curl -fsSL @SITE@/install.sh -o install.sh && sh install.sh
set -eu
site=@SITE@

[ "$(id -u)" = 0 ] || { echo "install.sh: run it as root" >&2; exit 1; }

fetch() { # ADDRESS FILE
    if command -v curl >/dev/null; then curl -fsSL "$1" -o "$2"; else wget -qO "$2" "$1"; fi
}

if command -v apt-get >/dev/null; then
    install -d -m 755 /etc/apt/keyrings
    fetch "$site/shopmirror.gpg" /etc/apt/keyrings/shopmirror.gpg
    fetch "$site/shopmirror.sources" /etc/apt/sources.list.d/shopmirror.sources
    apt-get update
    apt-get install -y shopmirror
elif command -v dnf >/dev/null; then
    fetch "$site/shopmirror.repo" /etc/yum.repos.d/shopmirror.repo
    dnf install -y shopmirror
elif command -v zypper >/dev/null; then
    fetch "$site/shopmirror.repo" /etc/zypp/repos.d/shopmirror.repo
    zypper --gpg-auto-import-keys install -y shopmirror
else
    echo "install.sh: this system has neither apt, dnf nor zypper; take the tarball from $site" >&2
    exit 1
fi
if [ -t 0 ]; then shopmirror init; else echo "Next, as root: shopmirror init"; fi
