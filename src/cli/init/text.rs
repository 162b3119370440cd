//! The texts of `init`: the configuration that it writes, and the next steps.

use std::path::Path;

use super::shop::Shop;

const EXAMPLES: &str = "# config.example.toml shows a sink of each type. Both are in \
                        /usr/share/doc/shopmirror if a package was installed.";

/// A configuration that mirrors a workspace and forwards nothing. `login_name` is the file with the
/// login at the mail server, if there is one.
pub(super) fn config(
    base_url: &str,
    key_name: &str,
    login_name: Option<&str>,
    shop: &Shop,
) -> String {
    let zone = match &shop.time_zone {
        Some(name) => format!("time_zone = {}", quoted(name)),
        None => "#time_zone = \"Europe/Berlin\"".to_owned(),
    };
    let locale = match &shop.locale {
        Some(name) => format!("locale = {}", quoted(name)),
        None => "#locale = \"de-DE\"".to_owned(),
    };
    let currency = match &shop.currency {
        Some(currency) => format!("[reports]\ncurrency = {}", quoted(currency)),
        None => "#[reports]\n#currency = \"EUR\"".to_owned(),
    };
    let alerts = alerts(shop, login_name);
    format!(
        r#"# Made by `shopmirror init`. Every other key has a default: docs/reference.md lists them,
{EXAMPLES}
# After a change run `shopmirror check`, then reload the service.

[workspace]
base_url = "{base_url}"
# In the folder of this file.
api_key_file = "{key_name}"
# Of the dates in reports and on the page, and of every time of day in this file.
{zone}
# How the page, mails and Excel files write numbers and days.
{locale}

# What amounts are in.
{currency}

# A status page for this machine: remove the # before both lines.
#[status]
#listen = "127.0.0.1:7780"

# Write every new and changed record to a file: remove the # before the three lines.
#[sinks.audit]
#type = "file"
#path = "audit.ndjson"
{alerts}"#
    )
}

/// The sink of alerts; nothing without a mail address.
fn alerts(shop: &Shop, login_name: Option<&str>) -> String {
    let Some(mail) = &shop.mail else {
        return String::new();
    };
    let to = quoted(&mail.to);
    let server = quoted(&mail.server);
    let login = match login_name {
        Some(name) => format!("login_file = {}\n", quoted(name)),
        None => String::new(),
    };
    format!(
        r#"
[alerts]
sink = "mail"

# Alerts by mail. Of changes it gets only the rarest kind.
[sinks.mail]
type = "email"
server = {server}
{login}from = {to}
to = [{to}]
changes = ["forgotten"]
"#
    )
}

/// A text as TOML.
fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

/// The next steps: `start` is the command that starts the service, if there is one.
pub(super) fn next(path: &Path, start: Option<&str>) -> String {
    let shown = path.display();
    let start = match start {
        Some(start) => format!("Start it now and at each boot:  {start}"),
        None => format!("Run the daemon:  shopmirror --config {shown} run"),
    };
    format!("\n{start}\nLook at it:  shopmirror --config {shown} status\n")
}
