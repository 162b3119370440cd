//! Reads the query of an address. Names and values come from outside and are only compared.

use axum::http::Uri;
use jiff::civil::Date;

use crate::record::Route;

/// The parameters of a query in their order; empty values are left out, as a form sends them.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn of(uri: &Uri) -> Self {
        let pairs = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        Self(pairs.into_owned().filter(|(_, value)| !value.is_empty()).collect())
    }

    /// What is wrong with a query that may have only these parameters.
    pub(super) fn allow(&self, known: &[&str]) -> Result<(), String> {
        match self.others(known).first() {
            None => Ok(()),
            Some((unknown, _)) => {
                let known = known.join(", ");
                Err(format!("There is no parameter {unknown:?} here; there are: {known}."))
            }
        }
    }

    /// The last value of a name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The number of the page, 0 unless it is given.
    pub(super) fn page(&self) -> Result<usize, String> {
        let number =
            self.get("page").map_or(Ok(0), |number| number.parse::<u16>().map(usize::from));
        number.map_err(|_| "The page is a whole number from 0 to 65535.".to_owned())
    }

    /// A day; a text that says what is wrong with it.
    pub(super) fn date(&self, name: &str) -> Result<Option<Date>, String> {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.parse()
            .map(Some)
            .map_err(|_| format!("{name} is {text:?}, which is no day: write it as 2026-03-31."))
    }

    /// One of several values; a text that says which there are.
    pub(super) fn choice<T: Copy>(
        &self,
        name: &str,
        known: &[T],
        word: impl Fn(T) -> &'static str,
    ) -> Result<Option<T>, String> {
        let Some(given) = self.get(name) else { return Ok(None) };
        let found = known.iter().copied().find(|value| word(*value) == given);
        found.map(Some).ok_or_else(|| {
            let known: Vec<&str> = known.iter().map(|value| word(*value)).collect();
            format!("There is no {name} {given:?}; there are: {}.", known.join(", "))
        })
    }

    /// Every parameter whose name is none of these.
    pub(super) fn others(&self, but: &[&str]) -> Vec<(String, String)> {
        self.0.iter().filter(|(name, _)| !but.contains(&name.as_str())).cloned().collect()
    }
}

/// The address of a record.
pub(super) fn record_link(route: Route, id: &str) -> String {
    link("record", &[("route", route.as_str()), ("id", id)])
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
