//! Reading the members of a JSON object without decoding their values. One odd name never stops a
//! route.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The text of a field's name. Half of a surrogate pair is valid JSON but not text: its escape stays
/// as received.
fn name_of(json: &str) -> Cow<'_, str> {
    let inner = &json[1..json.len() - 1];
    if !inner.contains('\\') {
        return inner.into();
    }
    match serde_json::from_str::<String>(json) {
        Ok(name) => name.into(),
        Err(_) => inner.into(),
    }
}

/// The top-level fields of a record in the order received, each as its name and its JSON text; of a
/// repeated name the last value counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Fields<'a> {
    /// Reads the fields of a text; `None` if it is no JSON object.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The JSON text of one field.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a str> {
        for (field, value) in &self.0 {
            if field == name {
                return Some(value);
            }
        }
        None
    }

    /// Each field's name and JSON text.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }

    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> FromIterator<(Cow<'a, str>, &'a str)> for Fields<'a> {
    fn from_iter<T: IntoIterator<Item = (Cow<'a, str>, &'a str)>>(fields: T) -> Self {
        Self(fields.into_iter().collect())
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a record")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields: Vec<(Cow<'de, str>, &'de str)> = Vec::with_capacity(24);
                let mut places: HashMap<Cow<'de, str>, usize> = HashMap::with_capacity(24);
                while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
                    let name = name_of(name.get());
                    let value = value.get();
                    match places.entry(name.clone()) {
                        Entry::Occupied(place) => fields[*place.get()].1 = value,
                        Entry::Vacant(place) => {
                            place.insert(fields.len());
                            fields.push((name, value));
                        }
                    }
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// The fields of a record that its page needs at once.
pub(super) struct Head<'a> {
    pub(super) id: Option<&'a str>,
    pub(super) created_at: Option<&'a str>,
}

/// Reads the head of a record and nothing else; `None` if the text is no JSON object. Of a repeated
/// name the last value counts.
pub(super) fn head(text: &str) -> Option<Head<'_>> {
    serde_json::from_str(text).ok()
}

impl<'de> Deserialize<'de> for Head<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Head<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a record")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Head<'de>, A::Error> {
                let mut head = Head {
                    id: None,
                    created_at: None,
                };
                while let Some(name) = map.next_key::<&RawValue>()? {
                    match &*name_of(name.get()) {
                        "id" => head.id = Some(map.next_value::<&RawValue>()?.get()),
                        "created_at" => {
                            head.created_at = Some(map.next_value::<&RawValue>()?.get());
                        }
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(head)
            }
        }
        deserializer.deserialize_map(Read)
    }
}

/// How far the workspace's clock may be from this machine's clock.
pub const CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(60);

/// The time that a JSON string holds, if it is one.
#[must_use]
pub fn parse_timestamp(json: &str) -> Option<Timestamp> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str::<String>(json).ok()?.parse().ok();
    }
    inner.parse().ok()
}

/// The JSON text of one top-level field, if the text is an object and has it.
#[must_use]
pub fn field_text<'a>(record: &'a str, name: &str) -> Option<&'a str> {
    Fields::parse(record)?.get(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_field_is_read_and_of_a_repeated_one_the_last() {
        let text = r#"{"id":1,"a":{"id":2},"\u0062":[3], "id" : "4"}"#;
        assert_eq!(field_text(text, "id"), Some("\"4\""));
        assert_eq!(field_text(text, "b"), Some("[3]"));
        assert_eq!(field_text(text, "c"), None);
        for bad in ["", "[]", "{", r#"{"id":1}}"#, r#"{"id":1,}"#] {
            assert_eq!(field_text(bad, "id"), None, "{bad}");
        }
    }

    #[test]
    fn half_of_a_surrogate_pair_in_a_name_keeps_its_escape() {
        let text = r#"{"a\ud800b\udfff":1,"id":7}"#;
        assert_eq!(field_text(text, r"a\ud800b\udfff"), Some("1"));
        assert_eq!(field_text(text, "id"), Some("7"));
        assert_eq!(field_text(r#"{"\ud83d\ude00":2}"#, "😀"), Some("2"));
    }
}
