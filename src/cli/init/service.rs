//! The systemd units of a configuration in `/etc/shopmirror`, and how `init` starts them.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::files::SERVICE_DIR;
use crate::cli::check::unit::Unit;
use crate::cli::exit::{CONFIG, PERMISSION, UNAVAILABLE, USAGE, refuse};

/// The service of one configuration, and the unit that watches its key.
pub(super) struct Service {
    units: [String; 2],
}

impl Service {
    /// The service of the configuration at `config`, which this user can start.
    pub(super) fn of(config: &Path) -> anyhow::Result<Self> {
        let Some(service) = Self::named(config) else {
            return refuse(
                USAGE,
                "--systemd needs a configuration in /etc/shopmirror: shopmirror.toml, or NAME.toml with letters, digits and _ for shopmirror@NAME.service",
            );
        };
        if !rustix::process::geteuid().is_root() {
            return refuse(PERMISSION, "--systemd starts a service: run this as root");
        }
        if Unit::of_config(config).is_none() {
            return refuse(
                CONFIG,
                "--systemd finds no unit of shopmirror: install the package first, or leave --systemd out",
            );
        }
        Ok(service)
    }

    /// As [`Self::of`] for a later start; `None` if no installed unit reads this configuration.
    pub(super) fn later(config: &Path) -> Option<Self> {
        Unit::of_config(config).and_then(|_| Self::named(config))
    }

    fn named(config: &Path) -> Option<Self> {
        let config = std::path::absolute(config).ok()?;
        let ours = config.parent()? == Path::new(SERVICE_DIR) && config.extension()? == "toml";
        let stem = config.file_stem()?.to_str()?;
        let plain = stem.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let instance = if stem == "shopmirror" { String::new() } else { format!("@{stem}") };
        (ours && plain).then(|| Self {
            units: [
                format!("shopmirror{instance}.service"),
                format!("shopmirror-key{instance}.path"),
            ],
        })
    }

    /// The command that starts it now and at each boot.
    pub(super) fn command(&self) -> String {
        format!("systemctl enable --now {}", self.units.join(" "))
    }

    /// Enables and starts it; returns when the daemon is ready.
    pub(super) fn start(&self) -> anyhow::Result<()> {
        let status = Command::new("systemctl").args(["enable", "--now"]).args(&self.units).status();
        let status = status.context("the files were written, but systemctl cannot be run")?;
        if status.success() {
            return Ok(());
        }
        refuse(
            UNAVAILABLE,
            format!(
                "the files were written, but the service did not start: see `systemctl status {0}`, then run `{1}`",
                self.units[0],
                self.command()
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_of_the_service_names_its_units() {
        let units = |path: &str| Service::named(Path::new(path)).map(|service| service.command());
        let single = "systemctl enable --now shopmirror.service shopmirror-key.path";
        assert_eq!(units("/etc/shopmirror/shopmirror.toml").as_deref(), Some(single));
        let named = "systemctl enable --now shopmirror@north.service shopmirror-key@north.path";
        assert_eq!(units("/etc/shopmirror/north.toml").as_deref(), Some(named));
        for path in ["/etc/shopmirror/a b.toml", "/etc/shopmirror/x.conf", "/srv/shopmirror.toml"] {
            assert_eq!(units(path), None, "{path}");
        }
    }
}
