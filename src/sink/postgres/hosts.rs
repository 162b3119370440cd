//! The hosts of the url: which of them are known to the name server of this machine.
//!
//! Of several hosts, those that are not known are left out: the connection may still reach another
//! one, and the library would look them up again out of turn.

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::sink::lookup;
use crate::tls;

/// The usual port.
const PORT: u16 = 5432;

/// `target` with the hosts that are known; if there is none, what is wrong with each of them.
pub(super) async fn known(target: Config) -> Result<Config, String> {
    if !target.get_hostaddrs().is_empty() {
        return Ok(target);
    }
    let (mut known, mut problems) = (Vec::new(), Vec::new());
    for (host, port) in places(&target) {
        match looked_up(&host, port).await {
            Ok(()) => known.push((host, port)),
            Err(problem) => problems.push(problem),
        }
    }
    match (known.is_empty(), problems.is_empty()) {
        (_, true) => Ok(target),
        (false, false) => Ok(with(&target, known)),
        (true, false) => Err(format!("{}; correct the host in the url", problems.join("; "))),
    }
}

async fn looked_up(host: &Host, port: u16) -> Result<(), String> {
    let Host::Tcp(name) = host else { return Ok(()) };
    lookup::known(name, port).await.map_err(|error| {
        let problem = tls::problem_of(&error).unwrap_or_else(|| error.to_string());
        format!("the host {name}: {problem}")
    })
}

/// The addresses and sockets of a target on this machine.
pub(super) fn places_here(target: &Config) -> Vec<(Host, u16)> {
    let addresses = target.get_hostaddrs().iter().enumerate();
    let given: Vec<(Host, u16)> = addresses
        .map(|(index, address)| (Host::Tcp(address.to_string()), port_of(target, index)))
        .collect();
    if given.is_empty() { places(target) } else { given }
}

/// Each host with its port: one port may stand for all hosts, and the usual one for none.
fn places(target: &Config) -> Vec<(Host, u16)> {
    let hosts = target.get_hosts().iter().enumerate();
    hosts.map(|(index, host)| (host.clone(), port_of(target, index))).collect()
}

fn port_of(target: &Config, index: usize) -> u16 {
    let ports = target.get_ports();
    ports.get(index).or(ports.first()).copied().unwrap_or(PORT)
}

/// The same target with these hosts. The library can add a host and remove none.
fn with(target: &Config, places: Vec<(Host, u16)>) -> Config {
    let mut made = Config::new();
    for (host, port) in places {
        match host {
            Host::Tcp(name) => made.host(name),
            Host::Unix(folder) => made.host_path(folder),
        };
        made.port(port);
    }
    if let Some(user) = target.get_user() {
        made.user(user);
    }
    if let Some(password) = target.get_password() {
        made.password(password);
    }
    if let Some(database) = target.get_dbname() {
        made.dbname(database);
    }
    if let Some(options) = target.get_options() {
        made.options(options);
    }
    if let Some(name) = target.get_application_name() {
        made.application_name(name);
    }
    if let Some(limit) = target.get_connect_timeout() {
        made.connect_timeout(*limit);
    }
    if let Some(limit) = target.get_tcp_user_timeout() {
        made.tcp_user_timeout(*limit);
    }
    if let Some(interval) = target.get_keepalives_interval() {
        made.keepalives_interval(interval);
    }
    if let Some(retries) = target.get_keepalives_retries() {
        made.keepalives_retries(retries);
    }
    made.keepalives(target.get_keepalives())
        .keepalives_idle(target.get_keepalives_idle())
        .ssl_mode(target.get_ssl_mode())
        .ssl_negotiation(target.get_ssl_negotiation())
        .target_session_attrs(target.get_target_session_attrs())
        .channel_binding(target.get_channel_binding())
        .load_balance_hosts(target.get_load_balance_hosts());
    made
}
