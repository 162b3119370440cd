//! The texts of `init`: the configuration that it writes, and the next steps.

use std::path::Path;

use jiff::tz::TimeZone;

use crate::text::locale::Locale;

const EXAMPLES: &str = "# config.example.toml shows a sink of each type. Both are in \
                        /usr/share/doc/shopmirror if a package was installed.";

/// A configuration that mirrors a workspace and forwards nothing.
pub(super) fn config(
    base_url: &str,
    key_name: &str,
    zone: &TimeZone,
    lang: Option<&str>,
) -> String {
    let locale = match lang.and_then(locale_name) {
        Some(name) => format!("locale = \"{name}\""),
        None => "#locale = \"de-DE\"".to_owned(),
    };
    let zone = match zone.iana_name() {
        Some(name) if !zone.is_unknown() => format!("time_zone = \"{name}\""),
        _ => "#time_zone = \"Europe/Berlin\"".to_owned(),
    };
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

# A status page for this machine: remove the # before both lines.
#[status]
#listen = "127.0.0.1:7780"

# Write every new and changed record to a file: remove the # before the three lines.
#[sinks.audit]
#type = "file"
#path = "audit.ndjson"
"#
    )
}

/// The name of a locale that is known, as the configuration has it: `de_DE.UTF-8` is `de-DE`.
fn locale_name(lang: &str) -> Option<String> {
    Locale::named(lang)?;
    let name = lang.split(['.', '@']).next()?;
    Some(name.replace('_', "-"))
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
