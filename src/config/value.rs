//! Lets serde read a value of the file, and words the problem if it cannot.
//!
//! The crate `toml` finds the place of a wrong value. Its message may repeat the value, so it is
//! replaced by our own.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::ExposeSecret;
use serde::de::value::MapDeserializer;
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use toml::de::{DeTable, Error};

use super::secret::Secret;
use crate::text::duration;

const WORD_MAX: usize = 64;
/// A word that is less alike than this is no misspelling.
const MIN_SIMILARITY: f64 = 0.84;
/// Milliseconds, for [`lasting`].
pub(super) const HOUR_MS: u64 = 3_600_000;
pub(super) const DAY_MS: u64 = 24 * HOUR_MS;

/// A table for serde: it gives a struct those of its fields that the table has.
pub(super) struct TableDeserializer<'a, 'd> {
    pub(super) entries: &'a DeTable<'d>,
    /// Collects the fields of the struct.
    pub(super) known_keys: &'a RefCell<BTreeSet<&'static str>>,
    /// The key that is read, and the place of its value.
    pub(super) last: &'a Cell<Option<(&'a str, usize)>>,
}

impl<'de> Deserializer<'de> for TableDeserializer<'_, 'de> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.known_keys.borrow_mut().extend(fields);
        let entries = self.entries.iter().filter_map(|(key, value)| {
            let key = &**key.get_ref();
            if !fields.contains(&key) {
                return None;
            }
            // The iterator is read one by one, so this is the key that serde reads now.
            self.last.set(Some((key, value.span().start)));
            Some((key, value.clone()))
        });
        visitor.visit_map(MapDeserializer::new(entries))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("a table is read into a struct"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The problem of a value, without the value. It follows the name of the key.
pub(super) fn message(error: &Error) -> String {
    let text = error.message();
    let Some((found, expected)) = text.rsplit_once(", expected ") else {
        return text.replace("wanted string or table", "must be a string in quotes");
    };
    if let Some(word) = found.strip_prefix("unknown variant `") {
        // The words between the backticks.
        let words: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        let advice = choice(word.trim_end_matches('`'), &words);
        return format!("cannot be this word; {advice}");
    }
    match expected {
        "u32" => "must be a whole number from 0 to 4294967295",
        "f64" => "must be a number",
        "a boolean" => "must be true or false, without quotes",
        "a string" | "path string" => "must be a string in quotes",
        "a sequence" => "must be a list in square brackets",
        DURATION => "must be a duration in quotes, for example \"20s\"",
        _ => "must be a table in curly brackets",
    }
    .to_owned()
}

/// Reads any string with `parse`, whose error follows the name of the key.
pub(super) fn parsed<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// As [`parsed`], for the text of the file that a key names.
pub(super) fn in_file<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    let path = PathBuf::deserialize(deserializer)?;
    let text = Secret::in_file(&path).map_err(D::Error::custom)?;
    parse(text.expose_secret()).map_err(D::Error::custom)
}

/// The two lines of a file: a name and a secret.
pub(super) fn two_lines<'de, D: Deserializer<'de>, T: From<(String, Secret)>>(
    d: D,
) -> Result<T, D::Error> {
    in_file(d, |text| match text.split_once('\n') {
        Some((name, secret)) => Ok(T::from((name.trim().to_owned(), secret.trim().into()))),
        None => Err("must name a file with two lines: a name, and the password or secret".into()),
    })
}

/// One word of a subject, a topic or the name of an object.
pub(super) fn word<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    parsed(d, |text| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if (1..=WORD_MAX).contains(&text.len()) && text.chars().all(is_part) {
            return Ok(text.to_owned());
        }
        Err(format!(
            "must be 1 to {WORD_MAX} characters of a-z, A-Z, 0-9, _ and -"
        ))
    })
}

/// A number from `LOW` to `HIGH`.
pub(super) fn within<'de, const LOW: u32, const HIGH: u32, D, T>(d: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u32>,
{
    let number = u32::deserialize(d)?;
    match T::try_from(number) {
        Ok(value) if (LOW..=HIGH).contains(&number) => Ok(value),
        _ => Err(D::Error::custom(format!("must be from {LOW} to {HIGH}"))),
    }
}

/// A length of time, written for example `"90s"` or `"1h 30m"`.
#[derive(Deserialize)]
pub(super) struct TimeSpan(#[serde(deserialize_with = "time")] pub(super) Duration);

/// What [`TimeVisitor`] expects; [`message`] words it.
const DURATION: &str = "a duration";

fn time<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
    d.deserialize_str(TimeVisitor)
}

struct TimeVisitor;

impl Visitor<'_> for TimeVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(DURATION)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Duration, E> {
        humantime::parse_duration(text).map_err(|_| {
            E::custom(
                "must be a duration, for example \"30s\": write a number and a unit (ms, s, m, h, \
                 d)",
            )
        })
    }
}

/// A length of time from `LOW` to `HIGH` milliseconds.
pub(super) fn lasting<'de, const LOW: u64, const HIGH: u64, D, T>(d: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: From<Duration>,
{
    let time = time(d)?;
    let low = Duration::from_millis(LOW);
    let high = Duration::from_millis(HIGH);
    if (low..=high).contains(&time) {
        return Ok(time.into());
    }
    let low = duration::exact(low);
    let high = duration::exact(high);
    Err(D::Error::custom(format!("must be from {low} to {high}")))
}

/// The longest time of one attempt of a sink.
pub(super) fn timeout<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
    lasting::<100, HOUR_MS, _, _>(d)
}

/// Defaults of keys, for `#[serde(default = …)]`.
pub(super) fn seconds<const N: u64>() -> Duration {
    Duration::from_secs(N)
}

/// A default, as [`seconds`].
pub(super) fn number<const N: u16, T: From<u16>>() -> T {
    N.into()
}

/// The one of `words` that `word` is most likely a misspelling of.
pub(super) fn nearest<'w>(word: &str, words: &[&'w str]) -> Option<&'w str> {
    let mut nearest = None;
    let mut best = MIN_SIMILARITY;
    for candidate in words {
        let similarity = strsim::jaro_winkler(word, candidate);
        if similarity > MIN_SIMILARITY && similarity >= best {
            best = similarity;
            nearest = Some(*candidate);
        }
    }
    nearest
}

/// Advice for a word that is not one of `words`.
pub(super) fn choice(word: &str, words: &[&str]) -> String {
    match nearest(word, words) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("use one of {}", words.join(", ")),
    }
}
