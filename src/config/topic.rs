//! Templates for the subjects of NATS, the topics of MQTT and the names of objects.
//!
//! A name is made from the name of the shop in the configuration, the route and the kind of a change.
//! Of a record only its id can be part of one, with everything but letters and digits encoded.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::problem::repeated;
use super::section::{Found, Section};
use crate::record::{Kind, NOTICE_ROUTE, Route};

/// What stays as it is in the id of a record.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

const LONGEST: usize = 200;
const WORD_MAX: usize = 64;

/// A template with the name of the shop filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// The template of `key`, or the usual one, with the name of the shop filled in; `None` only if a
/// problem was noted.
pub(super) fn read(
    section: &mut Section<'_>,
    key: &'static str,
    usual: &str,
    workspace: Option<&str>,
    form: &NameForm,
) -> Option<NameTemplate> {
    let named = section.holds(key);
    let (text, place) = match (section.text(key), named) {
        (Some(Found { value, place }), _) => (value.to_owned(), Some(place)),
        (None, true) => return None,
        (None, false) => (usual.to_owned(), None),
    };
    let plain = form.parts.iter().fold(text.clone(), |text, part| text.replace(part, "x"));
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let sound = plain.len() <= LONGEST
        && plain.split(form.separator).all(|word| !word.is_empty() && word.chars().all(legal));
    if !sound {
        let message = format!(
            "`{key}` cannot be {}: use words of a-z, A-Z, 0-9, - and _ with {} between them, and {}",
            repeated(&text),
            form.separator,
            form.parts.join(", ")
        );
        if let Some(place) = place {
            section.findings.note(&place, message);
        }
        return None;
    }
    Some(NameTemplate { text: text.replace("{workspace}", workspace?) })
}

/// The name of the shop; `None` only if a problem was noted.
pub(super) fn workspace(section: &mut Section<'_>) -> Option<String> {
    if !section.holds("workspace") {
        section.missing("workspace", "the name of this shop in each name, for example \"north\"");
    }
    let Found { value, place } = section.text("workspace")?;
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if value.len() > WORD_MAX || !value.chars().all(legal) {
        let message = format!(
            "`workspace` cannot be {}: use 1 to {WORD_MAX} characters of a-z, A-Z, 0-9, _ and -",
            repeated(value)
        );
        section.findings.note(&place, message);
        return None;
    }
    Some(value.to_owned())
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
