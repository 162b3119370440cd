//! Reading the members of a JSON object without decoding their values.
//!
//! A name may hold half of a surrogate pair, which is valid JSON and no text. Such a name is kept
//! with its escape, so that one odd field never stops a route.

use std::borrow::Cow;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor,
};
use serde_json::value::RawValue;

/// The name of a field, as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldName<'a>(pub Cow<'a, str>);

impl<'de> Deserialize<'de> for FieldName<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl<'de> Visitor<'de> for Name {
            type Value = FieldName<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field name")
            }

            fn visit_borrowed_bytes<E: Error>(self, name: &'de [u8]) -> Result<Self::Value, E> {
                Ok(FieldName(
                    std::str::from_utf8(name).map_or_else(|_| escaped(name), Cow::Borrowed),
                ))
            }

            fn visit_bytes<E: Error>(self, name: &[u8]) -> Result<Self::Value, E> {
                Ok(FieldName(Cow::Owned(match std::str::from_utf8(name) {
                    Ok(name) => name.to_owned(),
                    Err(_) => escaped(name).into_owned(),
                })))
            }
        }
        // As bytes: as text, half of a surrogate pair would be an error.
        deserializer.deserialize_bytes(Name)
    }
}

/// Half of a surrogate pair is read as the 3 bytes that UTF-8 would use, which are not valid.
fn escaped(name: &[u8]) -> Cow<'_, str> {
    let mut text = String::with_capacity(name.len() + 8);
    let mut rest = name;
    while !rest.is_empty() {
        let (valid, after) = match std::str::from_utf8(rest) {
            Ok(valid) => (valid, &rest[rest.len()..]),
            Err(error) => {
                let (valid, after) = rest.split_at(error.valid_up_to());
                (std::str::from_utf8(valid).unwrap_or_default(), after)
            }
        };
        text.push_str(valid);
        rest = match after {
            [first, second, third, rest @ ..] => {
                let bits = |byte: &u8, mask: u8| u32::from(byte & mask);
                let unit = bits(first, 0x0f) << 12 | bits(second, 0x3f) << 6 | bits(third, 0x3f);
                text.push_str(&format!("\\u{unit:04x}"));
                rest
            }
            _ => &[],
        };
    }
    Cow::Owned(text)
}

/// How far the workspace's clock may be from this machine's clock.
pub const CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(60);

/// When the workspace says that a record was created; `None` if it does not say, or not as a time.
#[must_use]
pub fn created_at(record: &str) -> Option<Timestamp> {
    time(field(record, "created_at")?)
}

/// The time that a JSON string holds, if it is one.
#[must_use]
pub fn time(json: &str) -> Option<Timestamp> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str::<String>(json).ok()?.parse().ok();
    }
    inner.parse().ok()
}

/// The JSON text of one top-level field, if the text is an object and has it; of a repeated name
/// the last one.
#[must_use]
pub fn field<'a>(record: &'a str, name: &str) -> Option<&'a str> {
    fields(record, [name]).and_then(|[found]| found)
}

/// The JSON texts of some top-level fields, read in one pass; `None` if the text is no object. Of a
/// repeated name it takes the last one.
#[must_use]
pub fn fields<'a, const N: usize>(
    record: &'a str,
    names: [&str; N],
) -> Option<[Option<&'a str>; N]> {
    struct Wanted<'n, const N: usize>([&'n str; N]);

    impl<'de, const N: usize> DeserializeSeed<'de> for Wanted<'_, N> {
        type Value = [Option<&'de RawValue>; N];

        fn deserialize<D: Deserializer<'de>>(
            self,
            deserializer: D,
        ) -> Result<Self::Value, D::Error> {
            deserializer.deserialize_map(self)
        }
    }

    impl<'de, const N: usize> Visitor<'de> for Wanted<'_, N> {
        type Value = [Option<&'de RawValue>; N];

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a record")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = [None; N];
            while let Some(FieldName(name)) = map.next_key()? {
                if let Some(place) = self.0.iter().position(|wanted| *wanted == name) {
                    found[place] = Some(map.next_value()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }

    let mut deserializer = serde_json::Deserializer::from_str(record);
    let found = Wanted(names).deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    Some(found.map(|value| value.map(RawValue::get)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_field_is_read_and_of_a_repeated_one_the_last() {
        let text = r#"{"id":1,"a":{"id":2},"\u0062":[3], "id" : "4"}"#;
        assert_eq!(field(text, "id"), Some("\"4\""));
        assert_eq!(field(text, "b"), Some("[3]"));
        assert_eq!(field(text, "c"), None);
        for bad in ["", "[]", "{", r#"{"id":1}}"#, r#"{"id":1,}"#] {
            assert_eq!(field(bad, "id"), None, "{bad}");
        }
    }

    #[test]
    fn half_of_a_surrogate_pair_in_a_name_keeps_its_escape() {
        let text = r#"{"a\ud800b\udfff":1,"id":7}"#;
        assert_eq!(field(text, r"a\ud800b\udfff"), Some("1"));
        assert_eq!(field(text, "id"), Some("7"));
        assert_eq!(field(r#"{"\ud83d\ude00":2}"#, "😀"), Some("2"));
    }
}
