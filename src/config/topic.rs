//! Templates for the subjects of NATS, the topics of MQTT and the names of objects.
//!
//! A name is made from the name of the shop in the configuration, the route and the kind of a change.
//! Of a record only its id can be part of one, with everything but letters and digits encoded.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Deserializer};

use super::table::Table;
use super::value::parsed;
use crate::record::{Kind, NOTICE_ROUTE, Route};

/// What stays as it is in the id of a record.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

const MAX_LENGTH: usize = 200;
const WORD_MAX: usize = 64;

/// A template with the name of the shop filled in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct NameTemplate {
    text: String,
}

impl NameTemplate {
    /// A template as [`Self::text`] gave it.
    #[must_use]
    pub fn of_text(text: String) -> Self {
        Self { text }
    }

    /// Its text, with the name of the shop filled in.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// True if this part is filled in.
    pub(super) fn has(&self, part: &str) -> bool {
        self.text.contains(part)
    }

    /// The template with the name of the shop; `None` only if a problem was noted.
    pub(super) fn filled(
        &self,
        table: &Table<'_>,
        key: &str,
        workspace: &str,
        form: &NameForm,
    ) -> Option<Self> {
        let plain = form.parts.iter().fold(self.text.clone(), |text, part| text.replace(part, "x"));
        let mut words = plain.split(form.separator);
        if plain.len() > MAX_LENGTH
            || !words.all(|word| !word.is_empty() && word.chars().all(is_legal))
        {
            table.note(
                key,
                format!(
                    "must be words of a-z, A-Z, 0-9, - and _ with {} between them, and {}",
                    form.separator,
                    form.parts.join(", ")
                ),
            );
            return None;
        }
        Some(Self { text: self.text.replace("{workspace}", workspace) })
    }

    /// The name for changes of this route and kind. A notice has no route: `shopmirror` stands in its
    /// place.
    #[must_use]
    pub fn name(&self, route: Route, kind: Kind) -> String {
        let route = if kind.is_notice() { NOTICE_ROUTE } else { route.as_str() };
        self.text.replace("{route}", route).replace("{kind}", kind.as_str())
    }

    /// The name for a record; its id is encoded as in a URL.
    #[must_use]
    pub fn record_name(&self, route: Route, kind: Kind, id: &str) -> String {
        self.name(route, kind).replace("{record}", &utf8_percent_encode(id, ENCODED).to_string())
    }

    /// The template with this text in place of each part that changes.
    #[must_use]
    pub fn pattern(&self, any: &str) -> String {
        self.text.replace("{route}", any).replace("{kind}", any)
    }
}

/// How the words of a name may look.
pub(super) struct NameForm {
    /// Separates two words.
    pub(super) separator: char,
    /// What is filled in.
    pub(super) parts: &'static [&'static str],
}

#[derive(Deserialize)]
struct ShopKey {
    #[serde(deserialize_with = "word")]
    workspace: String,
}

/// The name of the shop; `None` only if a problem was noted.
pub(super) fn workspace(table: &Table<'_>) -> Option<String> {
    let advice = "the name of this shop in each name, for example \"north\"";
    table.read::<ShopKey>(&[("workspace", advice)]).map(|shop| shop.workspace)
}

/// One word of a name.
pub(super) fn word<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    parsed(d, |text| match (1..=WORD_MAX).contains(&text.len()) && text.chars().all(is_legal) {
        true => Ok(text.to_owned()),
        false => Err(format!("must be 1 to {WORD_MAX} characters of a-z, A-Z, 0-9, _ and -")),
    })
}

fn is_legal(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_a_record_breaks_out_of_its_word() {
        let template = NameTemplate { text: "shop/north/{route}/{record}".to_owned() };
        for (id, name) in [
            ("12", "shop/north/leads/12"),
            ("a/+/#\0\n", "shop/north/leads/a%2F%2B%2F%23%00%0A"),
            ("{kind} é", "shop/north/leads/%7Bkind%7D%20%C3%A9"),
        ] {
            assert_eq!(template.record_name(Route::Leads, Kind::Created, id), name);
        }
    }
}
