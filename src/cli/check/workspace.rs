//! `check` of the key and of the workspace: the key can be read, the address responds, the
//! workspace knows the key and every configured business.

use jiff::Timestamp;
use secrecy::SecretString;
use shopmirror_core::record::PollerId;

use super::CheckReport;
use super::unit::Unit;
use crate::api::{ApiError, Class, Client, Ping};
use crate::cli::direct::DirectClient;
use crate::cli::exit;
use crate::config::{Config, KeyError};
use crate::poll::{clock_advice, clock_ahead_s};
use crate::store::Reader;

/// The variables by which other programs find a proxy.
const PROXY_VARIABLES: [&str; 6] = [
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
];

pub(super) async fn check(config: &Config, report: &mut CheckReport) {
    check_environment(report);
    let Some(key) = check_key(config, report) else {
        return;
    };
    let mut client = match DirectClient::new(config, key) {
        Ok(client) => client,
        Err(error) => return report.wrong("workspace", error.to_string()),
    };
    let (result, ahead_s) = greet(&mut client).await;
    if let Some(ahead_s) = ahead_s {
        report.wrong("clock", clock_advice(ahead_s));
    }
    match result {
        Ok(description) => {
            if is_the_stored_one(description, config, &mut client, report).await {
                check_businesses(config, &mut client, report).await;
            }
        }
        Err(error) => report.failed(
            exit::code_of_api(&error),
            "workspace",
            error.with_quotation(),
        ),
    }
}

/// Says if the environment names a proxy, because many programs use that one.
fn check_environment(report: &mut CheckReport) {
    for name in PROXY_VARIABLES {
        if std::env::var_os(name).is_some_and(|value| !value.is_empty()) {
            let text = format!(
                "{name} is set and ignored: a proxy is used only if `proxy` or `proxy_file` names \
                 it, in [workspace] or for a sink"
            );
            return report.warn("proxy", text);
        }
    }
}

/// Reports how the workspace described itself; false if it may not be the one that filled the
/// store.
async fn is_the_stored_one(
    description: String,
    config: &Config,
    client: &mut DirectClient,
    report: &mut CheckReport,
) -> bool {
    // A store that cannot be read is reported by its own test.
    let mut stored = None;
    if let Ok(reader) = Reader::open(&config.store.path)
        && let Ok(workspace) = reader.workspace()
    {
        stored = workspace;
    }
    let other = match stored {
        Some(workspace) if !workspace.is_of(&client.account()) => {
            client.other_workspace(&workspace).await
        }
        _ => Ok(None),
    };
    match other {
        Ok(None) => {
            report.ok("workspace", description);
            true
        }
        Ok(Some(other)) => {
            report.wrong("workspace", other.to_string());
            false
        }
        Err(error) => {
            let text = format!(
                "{description}; whether it is the one that filled the store could not be asked: \
                 {error}"
            );
            report.failed(exit::code_of_api(&error), "workspace", text);
            false
        }
    }
}

/// The first response of the workspace in words, and by how much this machine's clock is wrong; see
/// [`clock_ahead_s`].
pub(in crate::cli) async fn greet(
    client: &mut DirectClient,
) -> (Result<String, ApiError>, Option<f64>) {
    let mut ahead_s = None;
    let ping = async |client: &Client| {
        let (result, rate) = client.automation_ping().await;
        if let Some(server_time) = rate.server_time {
            ahead_s = clock_ahead_s(Timestamp::now(), server_time);
        }
        (result, rate)
    };
    let result = client.request(ping).await.map(|ping| described(&ping));
    (result, ahead_s)
}

/// The key that the daemon will use; `None` if it cannot be read here, which is reported.
fn check_key(config: &Config, report: &mut CheckReport) -> Option<SecretString> {
    match config.workspace.key.read() {
        Ok(key) => {
            match config.workspace.key.warning() {
                Some(warning) => report.wrong("key", warning),
                None => report.ok("key", "readable"),
            }
            Some(key)
        }
        Err(KeyError::Absent) if report.unit.as_ref().is_some_and(Unit::gives_key) => {
            let text = "the service gets it from its unit, and this user cannot read it: run \
                        check as root, or look at `shopmirror status` after the start";
            report.ok("key", text);
            report.ok("workspace", "not tested without the key");
            None
        }
        Err(error) => {
            report.wrong("key", error.to_string());
            None
        }
    }
}

/// Polls one route of each configured business: an unknown business is refused by every route.
async fn check_businesses(config: &Config, client: &mut DirectClient, report: &mut CheckReport) {
    let Some(route) = config.routes.first().map(|settings| settings.route) else {
        return;
    };
    for business in &config.workspace.businesses {
        let what = format!("business {business}");
        let poller = PollerId {
            route,
            business: Some(business.clone()),
        };
        let poll = async |client: &Client| client.poll(&poller, None).await;
        let Err(error) = client.request(poll).await else {
            report.ok(what, "known to the workspace");
            continue;
        };
        let code = exit::code_of_api(&error);
        if error.class() != Class::RouteBroken {
            return report.failed(code, what, error.with_quotation());
        }
        let text = format!(
            "correct `businesses` under [workspace]: {}",
            error.with_quotation()
        );
        report.failed(code, what, text);
    }
}

fn described(ping: &Ping) -> String {
    let workspace = ping.workspace.as_deref().unwrap_or("(no name)");
    let provider = ping.provider.as_deref().unwrap_or("(not named)");
    format!("{workspace} answers: {}; key type {provider}", ping.status)
}
