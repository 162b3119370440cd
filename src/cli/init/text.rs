//! The texts of `init`: the configuration it writes, and what happens next.

use std::path::Path;

use jiff::tz::TimeZone;

use crate::config::Config;

/// A configuration that mirrors a workspace and forwards nothing.
pub(super) fn config(base_url: &str, key_name: &str, zone: &TimeZone) -> String {
    let zone = match zone.iana_name().filter(|_| !zone.is_unknown()) {
        Some(name) => format!("time_zone = \"{name}\""),
        None => "#time_zone = \"Europe/Berlin\"".to_owned(),
    };
    format!(
        r#"# Made by `shopmirror init`. Every other key has a default: docs/reference.md lists them,
# config.example.toml shows a sink of each type. Both are in /usr/share/doc/shopmirror if a package was installed.
# After a change run `shopmirror check`, then reload the service.

[workspace]
base_url = "{base_url}"
# In the folder of this file.
api_key_file = "{key_name}"
# Of the dates in reports and on the page, and of every time of day in this file.
{zone}

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

/// What the daemon will do, and how to start it: `start` is the command for the service, if there is one.
pub(super) fn next(config: &Config, path: &Path, start: Option<&str>) -> String {
    let all = config.budget.requests_per_minute;
    let own = all - config.budget.reserve;
    let mut text = format!(
        "\nWhat it will do:\n\
         - ask the workspace for new and changed records, at most {own} times in 60 seconds; {} of the\n  \
           {all} requests that the key has are left to other programs\n\
         - store every record in {}\n\
         - send nothing to any other system until you add a sink to the configuration\n\n",
        config.budget.reserve,
        config.store.path.display(),
    );
    let shown = path.display();
    // Where every command looks for it, the configuration need not be named.
    let look = match path == Path::new("/etc/shopmirror/shopmirror.toml") {
        true => "shopmirror status".to_owned(),
        false => format!("shopmirror --config {shown} status"),
    };
    text.push_str(&match start {
        Some(start) => format!(
            "Start it now and at each boot:  {start}\nThen look at it:                {look}\n"
        ),
        None => format!(
            "Read every route once:  shopmirror --config {shown} once\n\
             Run the daemon:         shopmirror --config {shown} run\n\
             Look at it:             {look}\n"
        ),
    });
    text
}
