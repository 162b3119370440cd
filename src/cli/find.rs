//! `find`: searches every record of the mirror by words and numbers.

use std::process::ExitCode;

use serde_json::Value;

use super::exit::{USAGE, refuse};
use super::log::title;
use super::moment;
use super::output::{self, cell};
use crate::config::Config;
use crate::record::{FoundRecord, Route};
use crate::store::Found;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Words, beginnings of words, ids, e-mail addresses, or a phone number in any spelling
    #[arg(required = true)]
    term: Vec<String>,
    /// Only records of this route
    #[arg(long, value_parser = super::route())]
    route: Option<Route>,
    /// At most this many
    #[arg(long, default_value_t = 20)]
    limit: u32,
    #[command(flatten)]
    listing: super::Listing,
}

pub(super) fn run(config: &Config, args: &Args) -> anyhow::Result<ExitCode> {
    let term = args.term.join(" ");
    if !term.chars().any(char::is_alphanumeric) {
        return refuse(USAGE, "the term holds no letter and no digit: name a word or a number");
    }
    let limit = args.limit as usize;
    let reader = super::reader(config)?;
    let Found { changes: found, searched } = reader.find(&term, args.route, limit)?;
    if !searched.is_whole() {
        output::aside(&format!(
            "note: changes {} to {} are not in the search index yet, so records may be missing here: try again in a minute; without a daemon, run `shopmirror verify --rebuild`",
            searched.indexed + 1,
            searched.last_seq
        ));
    }
    if args.listing.json {
        let found: Result<Vec<FoundRecord>, _> =
            found.into_iter().map(FoundRecord::try_from).collect();
        return output::json(&found?);
    }
    output::table(
        &found,
        &[
            ("route", |change| change.route.to_string()),
            ("id", |change| cell(change.record_id.as_deref().unwrap_or_default(), 24)),
            ("contact", |change| contact(&change.body)),
            ("record", |change| title(&change.body)),
            ("changed", |change| moment::shown(&change.observed_at)),
        ],
        "nothing found",
        args.listing.wide,
    )
}

/// The number or the e-mail address of a record.
pub(super) fn contact(body: &str) -> String {
    let record: serde_json::Map<String, Value> = serde_json::from_str(body).unwrap_or_default();
    let text = |name: &str| record.get(name).and_then(Value::as_str).unwrap_or_default();
    let number = format!("{} {}", text("mobile_country_code"), text("mobile_number"));
    match (number.trim(), text("email")) {
        ("", "") => "-".to_owned(),
        ("", email) => cell(email, 40),
        (number, _) => cell(number, 40),
    }
}
