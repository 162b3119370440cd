//! Lets serde read a value of the file, and says in the words of this program what is wrong with it.
//!
//! A refusal knows the place of the innermost value that was refused. It never repeats that value.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::time::Duration;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, Expected, IntoDeserializer, MapAccess,
    Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::DeValue;

use super::files::CONTENTS;
use super::secret::Secret;
use crate::duration;

const WORD_MAX: usize = 64;
/// Milliseconds, for [`lasting`].
const HOUR_MS: u64 = 3_600_000;
pub(super) const DAY_MS: u64 = 24 * HOUR_MS;
/// What a sink whose names begin with the shop's needs.
pub(super) const SHOP: (&str, &str) =
    ("workspace", "the name of this shop in each name, for example \"north\"");

/// A value and its place in the file.
#[derive(Clone, Copy)]
pub(super) struct Value<'d>(pub(super) &'d Spanned<DeValue<'d>>);

/// Why a value cannot be used. The message follows the name of its key.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The key of the table, and where the value stands; `None` if a key is missing.
    pub(super) key: Option<String>,
    pub(super) place: Option<usize>,
    pub(super) message: String,
}

impl Refusal {
    /// The refusal of this value, unless it is of a value inside.
    fn at(self, value: Value<'_>) -> Self {
        Self { place: self.place.or_else(|| Some(value.0.span().start)), ..self }
    }
}

impl Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

impl serde::de::Error for Refusal {
    fn custom<T: Display>(message: T) -> Self {
        Self { key: None, place: None, message: message.to_string() }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Bool(_) => "a boolean",
            Unexpected::Unsigned(_) | Unexpected::Signed(_) => "a whole number",
            Unexpected::Float(_) => "a fraction",
            Unexpected::Str(_) => "a string",
            Unexpected::Seq => "a list",
            _ => "a table",
        };
        Self::custom(format!("must be {}, not {found}", wanted(expected)))
    }

    fn invalid_value(_: Unexpected<'_>, _: &dyn Expected) -> Self {
        Self::custom("is below 0, or larger than it can be")
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Self {
        Self::custom(format!("cannot be this word; {}", choice(word, known)))
    }
}

/// What serde expects, as a person writes it.
fn wanted(expected: &dyn Expected) -> String {
    match expected.to_string().as_str() {
        "u32" | "usize" => "a whole number".to_owned(),
        "f64" => "a number".to_owned(),
        "a boolean" => "true or false, without quotes".to_owned(),
        "a string" => "a string in quotes".to_owned(),
        "a sequence" => "a list in square brackets".to_owned(),
        "a map" => "a table in curly brackets".to_owned(),
        other => other.to_owned(),
    }
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        let number = |text: &str, radix| i64::from_str_radix(text, radix);
        let read = match self.0.get_ref() {
            DeValue::String(text) => visitor.visit_str(text),
            DeValue::Integer(digits) => match number(digits.as_str(), digits.radix()) {
                Ok(number) => visitor.visit_i64(number),
                Err(_) => Err(Refusal::custom("is too large a number")),
            },
            DeValue::Float(digits) => {
                visitor.visit_f64(digits.as_str().parse().unwrap_or(f64::INFINITY))
            }
            DeValue::Boolean(truth) => visitor.visit_bool(*truth),
            DeValue::Datetime(time) => visitor.visit_string(time.to_string()),
            DeValue::Array(items) => {
                visitor.visit_seq(SeqDeserializer::new(items.iter().map(Value)))
            }
            DeValue::Table(entries) => {
                let entries = entries.iter().map(|(key, value)| (&**key.get_ref(), Value(value)));
                visitor.visit_map(MapDeserializer::new(entries))
            }
        };
        read.map_err(|refusal| refusal.at(self))
    }

    /// A length of time is written as a text, for example `"90s"` or `"1h 30m"`.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        let refuse = |why: &str| Refusal::custom(format!("{why}, for example \"30s\"")).at(self);
        let text = self.0.get_ref().as_str();
        let text = text.ok_or_else(|| refuse("must be a duration in quotes"))?;
        let time = humantime::parse_duration(text)
            .map_err(|_| refuse("is not a duration: write a number and a unit (ms, s, m, h, d)"))?;
        let parts = [time.as_secs(), time.subsec_nanos().into()];
        visitor.visit_seq(SeqDeserializer::new(parts.into_iter()))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        let read = match self.0.get_ref() {
            DeValue::String(word) => visitor.visit_enum((&**word).into_deserializer()),
            _ => Err(Refusal::custom("must be a string in quotes")),
        };
        read.map_err(|refusal: Refusal| refusal.at(self))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

impl<'d> IntoDeserializer<'d, Refusal> for Value<'d> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// The keys of a table for serde: it asks for the fields of a struct and gets those that are there.
pub(super) struct Keys<'a, 'de> {
    /// The values that are not read yet.
    pub(super) values: std::collections::btree_map::Iter<'a, &'de str, Value<'de>>,
    /// The value of the key that was read last.
    pub(super) last: Option<(&'de str, Value<'de>)>,
    /// Learns the fields of the struct.
    pub(super) known: &'a RefCell<BTreeSet<&'static str>>,
    pub(super) fields: &'static [&'static str],
}

impl<'de> Deserializer<'de> for Keys<'_, 'de> {
    type Error = Refusal;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        let files = CONTENTS.iter().filter(|(_, key)| fields.contains(key));
        self.known.borrow_mut().extend(fields.iter().chain(files.map(|(file, _)| file)));
        visitor.visit_map(Self { fields, ..self })
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refusal> {
        Err(Refusal::custom("a table is read into a struct"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for Keys<'_, 'de> {
    type Error = Refusal;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Refusal> {
        let fields = self.fields;
        let next = self.values.find(|(key, _)| fields.contains(key));
        self.last = next.map(|(key, value)| (*key, *value));
        self.last.map(|(key, _)| seed.deserialize(key.into_deserializer())).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refusal> {
        let (key, value) = self.last.expect("serde asks for a value after its key");
        seed.deserialize(value)
            .map_err(|refusal| Refusal { key: Some(key.to_owned()), ..refusal.at(value) })
    }
}

/// Reads any string with `parse`, whose error follows the name of the key.
pub(super) fn parsed<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::String(text) => parse(&text).map_err(D::Error::custom),
        _ => Err(D::Error::custom("must be a string in quotes")),
    }
}

/// The two lines of a file: a name and what is secret.
pub(super) fn two_lines<'de, D: Deserializer<'de>, T: From<(String, Secret)>>(
    d: D,
) -> Result<T, D::Error> {
    parsed(d, |text| {
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        match lines[..] {
            [name, secret] => Ok(T::from((name.to_owned(), secret.into()))),
            _ => Err("must name a file with two lines: a name, and the password or secret".into()),
        }
    })
}

/// A text, or a number as a text.
pub(super) struct TextOrNumber(pub(super) String);

impl<'de> Deserialize<'de> for TextOrNumber {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(d)? {
            serde_json::Value::String(text) => Ok(Self(text)),
            serde_json::Value::Number(number) => Ok(Self(number.to_string())),
            _ => Err(D::Error::custom("must be a string or a number")),
        }
    }
}

/// The ids of businesses (branches): texts or numbers.
pub(super) fn businesses<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    let ids: Vec<String> =
        Vec::<TextOrNumber>::deserialize(d)?.into_iter().map(|id| id.0).collect();
    if ids.iter().any(|id| id.is_empty() || !id.bytes().all(|b| b.is_ascii_graphic())) {
        return Err(D::Error::custom("must hold ids of businesses, without white space"));
    }
    distinct(ids).map_err(D::Error::custom)
}

/// One word of a subject, a topic or the name of an object.
pub(super) fn word<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    parsed(d, |text| match (1..=WORD_MAX).contains(&text.len()) && text.chars().all(legal) {
        true => Ok(text.to_owned()),
        false => Err(format!("must be 1 to {WORD_MAX} characters of a-z, A-Z, 0-9, _ and -")),
    })
}

/// A list of distinct words, not empty.
pub(super) fn words<'de, D: Deserializer<'de>, W, T>(d: D) -> Result<T, D::Error>
where
    W: Deserialize<'de> + PartialEq,
    T: From<Vec<W>>,
{
    let words = Vec::<W>::deserialize(d)?;
    if words.is_empty() {
        return Err(D::Error::custom("is empty, so that nothing can match: remove it"));
    }
    distinct(words).map(T::from).map_err(D::Error::custom)
}

fn distinct<T: PartialEq>(list: Vec<T>) -> Result<Vec<T>, &'static str> {
    let is_twice = |(at, item)| list[..at].contains(item);
    match list.iter().enumerate().any(is_twice) {
        true => Err("holds one item twice: remove one of them"),
        false => Ok(list),
    }
}

/// A number from `LOW` to `HIGH`.
pub(super) fn within<'de, const LOW: u32, const HIGH: u32, D, T>(d: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u32>,
{
    let number = u32::deserialize(d)?;
    let read = T::try_from(number).ok().filter(|_| (LOW..=HIGH).contains(&number));
    read.ok_or_else(|| D::Error::custom(format!("must be from {LOW} to {HIGH}")))
}

/// A length of time from `LOW` to `HIGH` milliseconds.
pub(super) fn lasting<'de, const LOW: u64, const HIGH: u64, D, T>(d: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: From<Duration>,
{
    let time = Duration::deserialize(d)?;
    let (low, high) = (Duration::from_millis(LOW), Duration::from_millis(HIGH));
    if (low..=high).contains(&time) {
        return Ok(time.into());
    }
    let [low, high] = [low, high].map(duration::exact);
    Err(D::Error::custom(format!("must be from {low} to {high}")))
}

/// A text that is not empty.
pub(super) fn filled<'de, D: Deserializer<'de>, T: From<String>>(d: D) -> Result<T, D::Error> {
    let text = String::deserialize(d)?;
    if text.trim().is_empty() {
        return Err(D::Error::custom("must not be empty"));
    }
    Ok(text.into())
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

/// The word of `known` that `word` is most likely a misspelling of.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let alike = known.iter().map(|known| (strsim::jaro_winkler(word, known), *known));
    let near = alike.max_by(|(a, _), (b, _)| a.total_cmp(b));
    near.filter(|(alike, _)| *alike > 0.84).map(|(_, known)| known)
}

/// Advice for a word that is not in `known`.
pub(super) fn choice(word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("use one of {}", known.join(", ")),
    }
}
