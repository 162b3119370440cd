//! Lets serde read a value of the file, and says in the words of this program what is wrong with it.
//!
//! A refusal knows the place of the innermost value that was refused. It never repeats that value.

use std::fmt::{self, Display};
use std::path::PathBuf;
use std::time::Duration;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, Expected, IntoDeserializer, MapAccess,
    Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::DeValue;

use super::secret::Secret;
use crate::escape::is_unsafe;
use crate::record::{Kind, Route};

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
        Self::custom(format!("cannot be this; {}", choice(word, known)))
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
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
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
    pub(super) known: &'a mut Vec<&'static str>,
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
        self.known.extend(fields);
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

/// Reads a string with `parse`, whose error follows the name of the key.
pub(super) fn parsed<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    wanted: &'static str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    struct Text<F>(&'static str, F);
    impl<T, F: Fn(&str) -> Result<T, String>> Visitor<'_> for Text<F> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
            (self.1)(text).map_err(E::custom)
        }
    }
    deserializer.deserialize_str(Text(wanted, parse))
}

/// A text on one line, not empty, without white space around it.
pub(super) fn line<'de, D: Deserializer<'de>, T: From<String>>(d: D) -> Result<T, D::Error> {
    parsed(d, "a string in quotes", |text| match unfit(text) {
        None => Ok(T::from(text.to_owned())),
        Some(why) => Err(why.to_owned()),
    })
}

/// As [`line`], for a path.
pub(super) fn path<'de, D: Deserializer<'de>, T: From<PathBuf>>(d: D) -> Result<T, D::Error> {
    line::<D, String>(d).map(|text| T::from(text.into()))
}

/// As [`line`], for a secret.
pub(super) fn secret<'de, D: Deserializer<'de>>(d: D) -> Result<Secret, D::Error> {
    line::<D, String>(d).map(Secret::from)
}

/// The two lines of a file: a name and what is secret.
pub(super) fn two_lines<'de, D: Deserializer<'de>, T: From<(String, Secret)>>(
    d: D,
) -> Result<T, D::Error> {
    parsed(d, "the name of a file, in quotes", |text| {
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        match lines[..] {
            [name, secret] => Ok(T::from((name.to_owned(), secret.into()))),
            _ => Err(
                "must name a file with two lines: the user name or id, and the password or secret"
                    .into(),
            ),
        }
    })
}

/// A list of texts as [`line`] reads them.
pub(super) fn lines<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    #[derive(serde::Deserialize)]
    struct Line(#[serde(deserialize_with = "line")] String);
    let lines = Vec::<Line>::deserialize(d)?.into_iter().map(|line| line.0).collect();
    distinct(lines).map_err(D::Error::custom)
}

/// The problem with a text that should be a value on one line.
pub(super) fn unfit(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("is empty: give a value or remove it")
    } else if text.trim() != text {
        Some("has white space at its start or end: remove it")
    } else if text.chars().any(is_unsafe) {
        Some("holds a line break or another control character: remove it")
    } else {
        None
    }
}

/// A length of time, for example `"90s"` or `"1h 30m"`.
pub(super) fn duration<'de, D: Deserializer<'de>, T: From<Duration>>(d: D) -> Result<T, D::Error> {
    parsed(d, "a duration in quotes, for example \"30s\"", |text| {
        humantime::parse_duration(text).map(T::from).map_err(|_| {
            "is not a duration: write a number and a unit (ms, s, m, h, d), for example \"30s\""
                .into()
        })
    })
}

/// A list of lengths of time.
pub(super) fn durations<'de, D: Deserializer<'de>, T: From<Vec<Duration>>>(
    d: D,
) -> Result<T, D::Error> {
    #[derive(serde::Deserialize)]
    struct Wait(#[serde(deserialize_with = "duration")] Duration);
    Ok(T::from(Vec::<Wait>::deserialize(d)?.into_iter().map(|wait| wait.0).collect()))
}

/// The ids of businesses (branches): texts or numbers.
pub(super) fn businesses<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    #[derive(serde::Deserialize)]
    struct Id(#[serde(deserialize_with = "text_or_number")] String);
    let ids: Vec<String> = Vec::<Id>::deserialize(d)?.into_iter().map(|id| id.0).collect();
    if ids.iter().any(|id| id.is_empty() || !id.bytes().all(|b| b.is_ascii_graphic())) {
        return Err(D::Error::custom("must hold ids of businesses, without white space"));
    }
    distinct(ids).map_err(D::Error::custom)
}

/// A text, or a number as a text.
pub(super) fn text_or_number<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    match serde_json::Value::deserialize(d)? {
        serde_json::Value::String(text) => Ok(text),
        serde_json::Value::Number(number) => Ok(number.to_string()),
        _ => Err(D::Error::custom("must be a string or a number")),
    }
}

/// The words of a closed list.
pub(super) trait Word: Copy + Display + PartialEq + 'static {
    /// All of them, in the order in which a message names them.
    const ALL: &'static [Self];
}

impl Word for Route {
    const ALL: &'static [Self] = &Self::ALL;
}

impl Word for Kind {
    const ALL: &'static [Self] = &Self::ALL;
}

/// A list of distinct words, not empty.
pub(super) fn words<'de, D: Deserializer<'de>, W: Word, T: From<Vec<W>>>(
    d: D,
) -> Result<T, D::Error> {
    struct One<W>(W);
    impl<'de, W: Word> Deserialize<'de> for One<W> {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            let names: Vec<String> = W::ALL.iter().map(ToString::to_string).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            parsed(d, "a string in quotes", |text| {
                let found = names.iter().position(|name| *name == text);
                found
                    .map(|at| Self(W::ALL[at]))
                    .ok_or_else(|| format!("cannot hold this; {}", choice(text, &names)))
            })
        }
    }
    let words: Vec<W> = Vec::<One<W>>::deserialize(d)?.into_iter().map(|word| word.0).collect();
    if words.is_empty() {
        return Err(D::Error::custom(
            "is empty, so that nothing can match: remove it for the default",
        ));
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

/// Defaults of keys, for `#[serde(default = …)]`.
pub(super) fn seconds<const N: u64>() -> Duration {
    Duration::from_secs(N)
}

/// A default, as [`seconds`].
pub(super) fn number<const N: u32>() -> u32 {
    N
}

/// A default, as [`seconds`].
pub(super) fn count<const N: usize>() -> usize {
    N
}

/// The word of `known` that `word` is most likely a misspelling of.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let begun = known.iter().find(|candidate| word.len() >= 3 && candidate.starts_with(word));
    let slips = known
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len().max(word.len()) / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate);
    let alike = || known.iter().copied().find(|candidate| begins_alike(word, candidate));
    slips.or(begun.copied()).or_else(alike)
}

/// True for `apikey` and `api_key_file`, and for `retries` and `retry`.
fn begins_alike(word: &str, candidate: &str) -> bool {
    let letters = |text: &str| text.replace(['_', '-'], "").to_ascii_lowercase();
    let (word, candidate) = (letters(word), letters(candidate));
    let shared = word.chars().zip(candidate.chars()).take_while(|(a, b)| a == b).count();
    shared >= 4 && shared + 3 >= word.chars().count()
}

/// Advice for a word that is not in `known`.
pub(super) fn choice(word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("use one of {}", known.join(", ")),
    }
}
