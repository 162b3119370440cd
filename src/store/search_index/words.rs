//! The words of a record, and the query of a search term. Pure.
//!
//! A number such as a phone number is indexed a second time: its digits backwards, as one word. A
//! search for a number in any spelling, with or without the country, is then a search for the
//! beginning of that word: its last digits.

use serde_json::Value;

/// The most bytes of a record's words.
const MAX_TEXT: usize = 8 * 1024;
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

/// The words of a record, as text for the index.
pub(super) fn of_record(body: &str) -> String {
    let mut text = String::new();
    match serde_json::from_str(body) {
        Ok(record) => read(&record, &mut text),
        // Half of a surrogate pair: the words are good enough.
        Err(_) => push(&mut text, body),
    }
    text
}

fn read(value: &Value, text: &mut String) {
    match value {
        Value::String(words) if !is_time(words) => {
            push(text, words);
            if let Some(digits) = digits(words)
                && digits.len() >= MIN_NUMBER
            {
                push(text, &backwards(&digits));
            }
        }
        Value::Number(number) if !number.is_f64() => push(text, &number.to_string()),
        Value::Array(items) => {
            for item in items {
                read(item, text);
            }
        }
        Value::Object(object) => {
            for (name, item) in object {
                if name != LEFT_OUT {
                    read(item, text);
                }
            }
        }
        _ => {}
    }
}

fn push(text: &mut String, words: &str) {
    let room = MAX_TEXT.saturating_sub(text.len() + 1);
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
        for word in ["12 ", "Zoë ", "07700 900123 ", "r32100900770 ", "a c "] {
            assert!(text.contains(word), "{word} in {text}");
        }
        assert!(
            !text.contains("open") && !text.contains("2026") && !text.contains("true"),
            "{text}"
        );
        assert!(of_record(&format!("{{\"a\":\"{}\"}}", "é".repeat(10_000))).len() <= MAX_TEXT + 2);
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
