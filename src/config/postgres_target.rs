//! Checks the connection string of a PostgreSQL server; a message never repeats it.

use std::net::IpAddr;

use tokio_postgres::config::{Host, SslMode};

use super::address::is_this_machine;

/// The server, database and user that a connection string names.
///
/// # Errors
/// What is wrong with it, without repeating it.
pub fn postgres_target(text: &str) -> Result<tokio_postgres::Config, String> {
    // The certificate is always verified, so these words of other clients mean the same here.
    let known = ["verify-full", "verify-ca"].iter().fold(text.to_owned(), |text, mode| {
        text.replace(&format!("sslmode={mode}"), "sslmode=require")
    });
    let target: tokio_postgres::Config = known.parse().map_err(|_| {
        "cannot be read: write it as postgresql://user:password@host/database, with %40 for an @ \
         in the password; for a certificate authority use `ca_file`"
            .to_owned()
    })?;
    let missing = [
        ("host", target.get_hosts().is_empty() && target.get_hostaddrs().is_empty()),
        ("user", target.get_user().is_none()),
        ("database", target.get_dbname().is_none()),
    ];
    if let Some((part, _)) = missing.iter().find(|(_, is_missing)| *is_missing) {
        return Err(format!(
            "names no {part}: write it as postgresql://user:password@host/database"
        ));
    }
    if target.get_ssl_mode() == SslMode::Disable && !is_on_this_machine(&target) {
        return Err(
            "asks for no encryption: remove sslmode=disable, because records and password \
             would cross the network in clear text"
                .into(),
        );
    }
    Ok(target)
}

/// True if every connection to this target stays on this machine.
#[must_use]
pub fn is_on_this_machine(target: &tokio_postgres::Config) -> bool {
    let addresses = target.get_hostaddrs();
    let is_near = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => is_this_machine(name),
    };
    addresses.iter().all(IpAddr::is_loopback)
        && (!addresses.is_empty() || target.get_hosts().iter().all(is_near))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_reached_without_encryption() {
        for (text, local) in [
            ("host=/run/postgresql user=u dbname=d", true),
            ("postgresql://u@127.0.0.1/d", true),
            ("postgresql://u@[::1]/d", true),
            ("postgresql://u@localhost/d", true),
            ("postgresql://u@localhost,db.example.com/d", false),
            ("postgresql://u@localhost.example.com/d", false),
            ("host=localhost hostaddr=10.0.0.1 user=u dbname=d", false),
        ] {
            assert_eq!(is_on_this_machine(&postgres_target(text).unwrap()), local, "{text}");
        }
    }
}
