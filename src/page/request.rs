//! Reads the query of an address. Names and values come from outside and are only compared.

use axum::http::Uri;
use jiff::civil::Date;

/// The most parameters of a query, and the longest value in bytes.
const PARAMETERS_MAX: usize = 40;
const VALUE_MAX: usize = 500;

/// The parameters of a query in their order; empty values are left out, as a form sends them.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn of(uri: &Uri) -> Self {
        let pairs = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        let pairs = pairs.take(PARAMETERS_MAX).filter(|(_, value)| !value.is_empty());
        Self(
            pairs
                .filter(|(_, value)| value.len() <= VALUE_MAX)
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    /// The last value of a name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn date(&self, name: &str) -> Option<Date> {
        self.get(name)?.parse().ok()
    }

    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.get(name)?.parse().ok()
    }

    /// Every parameter whose name is none of these.
    pub(super) fn others(&self, but: &[&str]) -> Vec<(String, String)> {
        self.0.iter().filter(|(name, _)| !but.contains(&name.as_str())).cloned().collect()
    }
}

/// An address of this page with a query.
pub(super) fn link(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        query.append_pair(name, value);
    }
    format!("{path}?{}", query.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_and_written_without_loss() {
        let address = link("/records", &[("route", "jobs"), ("text", "a&b=\"ü<"), ("sort", "")]);
        let query = Query::of(&address.parse().unwrap());
        assert_eq!(query.get("text"), Some("a&b=\"ü<"));
        assert_eq!((query.get("route"), query.get("sort")), (Some("jobs"), None));
        assert_eq!(query.others(&["route"]).len(), 1);
    }
}
