//! The words of a record, and the query of a search term. Pure.
//!
//! A long text takes no room from the others: each field has its own bound, and ids, names and
//! numbers come before all other fields.
//!
//! A number such as a phone number is indexed a second time: its digits backwards, as one word. A
//! search for a number in any spelling, with or without the country, is then a search for the
//! beginning of that word: its last digits.

use serde_json::Value;

/// The most bytes of the words of one field, and of all fields of a record.
const MAX_FIELD: usize = 32 * 1024;
const MAX_TEXT: usize = 128 * 1024;
/// Fewer digits are not taken for a phone number.
const MIN_NUMBER: usize = 6;
/// The number of digits of a term that are searched as the end of a phone number: what stands
/// before them is written in many ways.
const MIN_END: usize = 4;
const MAX_END: usize = 7;
/// The most words of a term.
const MAX_WORDS: usize = 12;
/// A field that holds the same few words in every record.
const LEFT_OUT: &str = "status_stage";
/// A field whose name has one of these words is indexed before the others: by it a person looks for
/// a record.
const FIRST: [&str; 8] = [
    "id", "name", "number", "email", "mobile", "phone", "imei", "serial",
];

/// Fields that are indexed together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    First,
    Rest,
}

/// The words of a record, as text for the index.
pub(super) fn of_record(body: &str) -> String {
    let mut text = String::new();
    match serde_json::from_str(body) {
        Ok(record) => {
            for part in [Part::First, Part::Rest] {
                read("", &record, part, &mut text);
            }
        }
        // Half of a surrogate pair: the words are good enough.
        Err(_) => push(&mut text, body),
    }
    text
}

/// The part to which a text of a field of this name belongs.
fn part_of(name: &str) -> Part {
    if name.split('_').any(|word| FIRST.contains(&word)) {
        Part::First
    } else {
        Part::Rest
    }
}

fn read(name: &str, value: &Value, part: Part, text: &mut String) {
    match value {
        Value::String(words) if part_of(name) == part && !is_time(words) => {
            push(text, words);
            if let Some(digits) = digits(words)
                && digits.len() >= MIN_NUMBER
            {
                push(text, &backwards(&digits));
            }
        }
        Value::Number(number) if part == Part::First && !number.is_f64() => {
            push(text, &number.to_string());
        }
        Value::Array(items) => {
            for item in items {
                read(name, item, part, text);
            }
        }
        Value::Object(object) => {
            for (name, item) in object {
                if name != LEFT_OUT {
                    read(name, item, part, text);
                }
            }
        }
        _ => {}
    }
}

fn push(text: &mut String, words: &str) {
    let room = MAX_TEXT.saturating_sub(text.len() + 1).min(MAX_FIELD);
    text.push_str(&words[..words.floor_char_boundary(room)]);
    text.push(' ');
}

/// A time as the workspace writes it, for which no search is made.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20 && bytes[4] == b'-' && bytes[10] == b'T' && bytes.ends_with(b"Z")
}

/// The digits of text that is written like a phone number.
fn digits(text: &str) -> Option<String> {
    let mut digits = String::new();
    for c in text.trim().chars() {
        if c.is_ascii_digit() {
            digits.push(c);
        } else if !"+ ()-./".contains(c) {
            return None;
        }
    }
    Some(digits)
}

/// The word of a phone number: `r` and its digits from the last to the first.
fn backwards(digits: &str) -> String {
    let mut word = String::from("r");
    word.extend(digits.chars().rev());
    word
}

/// The question of a term in the language of FTS5; `None` if it holds no word. Its last word may be
/// the beginning of a word. What FTS5 divides further has to be found as it is written.
pub(super) fn question(term: &str) -> Option<String> {
    let words: Vec<String> = term
        .split(|c: char| c.is_whitespace() || matches!(c, '"' | '\0'))
        .filter(|word| word.contains(char::is_alphanumeric))
        .take(MAX_WORDS)
        .map(|word| format!("\"{word}\""))
        .collect();
    if words.is_empty() {
        return None;
    }
    let mut question = format!("{}*", words.join(" "));
    if let Some(digits) = digits(term)
        && digits.len() >= MIN_END
    {
        let end = &digits[digits.len().saturating_sub(MAX_END)..];
        question.push_str(&format!(" OR \"{}\"*", backwards(end)));
    }
    Some(question)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_indexed_by_its_words_and_the_end_of_its_numbers() {
        let body = r#"{"id":12,"name":"Zoë","status_stage":"open",
            "created_at":"2026-03-01T00:00:00.5Z","mobile_country_code":"+44",
            "mobile_number":"07700 900123","tags":["a",{"b":"c"}],"paid":true,"amount":1.5}"#;
        let text = of_record(body);
        for word in ["12 ", "Zoë ", "07700 900123 ", "r32100900770 ", "a ", "c "] {
            assert!(text.contains(word), "{word} in {text}");
        }
        assert!(
            !text.contains("open") && !text.contains("2026") && !text.contains("true"),
            "{text}"
        );
    }

    #[test]
    fn a_long_text_takes_no_room_from_the_others_and_the_whole_is_bounded() {
        let long = "é ".repeat(40_000);
        let mut record = serde_json::Map::new();
        for field in 0..10 {
            record.insert(format!("a{field}"), long.clone().into());
        }
        record.insert("z_name".into(), "Zoë".into());
        record.insert("zip".into(), "50667".into());
        let text = of_record(&Value::from(record.clone()).to_string());
        assert!(
            text.contains("Zoë ") && text.len() <= MAX_TEXT + 12,
            "{}",
            text.len()
        );
        record.retain(|name, _| ["a0", "z_name", "zip"].contains(&name.as_str()));
        let text = of_record(&Value::from(record).to_string());
        assert!(
            text.contains("Zoë ") && text.contains("50667 "),
            "{}",
            text.len()
        );
    }

    #[test]
    fn a_term_is_a_question_without_operators_of_its_own() {
        assert_eq!(question("zoe smith").unwrap(), r#""zoe" "smith"*"#);
        assert_eq!(question("a* OR \"b").unwrap(), r#""a*" "OR" "b"*"#);
        assert_eq!(question(" -*\" "), None);
        for number in ["07700 900123", "+44 (0)7700-900123"] {
            assert!(
                question(number).unwrap().ends_with(r#"* OR "r3210090"*"#),
                "{number}"
            );
        }
        assert!(question("0123").unwrap().ends_with(r#"* OR "r3210"*"#));
    }
}
