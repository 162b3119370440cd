//! What is indexed of a record, and what a search term asks for. Pure.
//!
//! A number such as a phone number is indexed a second time: its digits backwards, as one word. A
//! search for it in any spelling, with or without the country, or for its last digits, is then a
//! search for the beginning of that word.

use serde_json::Value;

/// The most bytes of a record's words.
const MAX_TEXT: usize = 8 * 1024;
/// Fewer digits are not taken for a phone number.
const MIN_NUMBER: usize = 6;
/// Fewer digits of a term are not searched as the end of a phone number.
const MIN_END: usize = 4;
/// The most words of a term.
const MAX_WORDS: usize = 12;
/// The most digits that a country's code has.
const MAX_COUNTRY: usize = 3;
/// A field that holds the same few words in every record.
const LEFT_OUT: &str = "status_stage";

/// The words of a record, as text for the index.
pub(super) fn of_record(body: &str) -> String {
    let mut text = String::new();
    match serde_json::from_str(body) {
        Ok(record) => read("", &record, "", &mut text),
        // Half of a surrogate pair: the words are good enough.
        Err(_) => push(&mut text, body),
    }
    text
}

fn read(name: &str, value: &Value, country: &str, text: &mut String) {
    match value {
        Value::String(said) if !is_time(said) => {
            push(text, said);
            let is_phone = name.contains("mobile") || name.contains("phone");
            if let Some(word) = number_word(said, if is_phone { country } else { "" }) {
                push(text, &word);
            }
        }
        Value::Number(number) if !number.is_f64() => push(text, &number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| read(name, item, country, text)),
        Value::Object(object) => {
            let country = object.get("mobile_country_code").and_then(Value::as_str).unwrap_or("");
            for (name, value) in object.iter().filter(|(name, _)| *name != LEFT_OUT) {
                read(name, value, country, text);
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

/// The digits of text that looks like a phone number, and whether the country stands in front.
fn digits(text: &str) -> Option<(String, bool)> {
    let text = text.trim();
    if !text.chars().all(|c| c.is_ascii_digit() || "+ ()-./".contains(c)) {
        return None;
    }
    let plain = text.replace("(0)", "");
    let digits: String = plain.chars().filter(char::is_ascii_digit).collect();
    let is_international = plain.starts_with('+') || digits.starts_with("00");
    Some((digits.trim_start_matches('0').to_owned(), is_international))
}

/// The word of a phone number: `r` and its digits from the last to the first.
fn number_word(text: &str, country: &str) -> Option<String> {
    let (digits, is_international) = digits(text)?;
    if digits.len() < MIN_NUMBER {
        return None;
    }
    let country: String = match is_international {
        true => String::new(),
        false => country.chars().filter(char::is_ascii_digit).collect(),
    };
    Some(backwards(&format!("{country}{digits}")))
}

fn backwards(digits: &str) -> String {
    std::iter::once('r').chain(digits.chars().rev()).collect()
}

/// The question of a term in the language of FTS5; `None` if it holds no word. Its last word may be the
/// beginning of a word. What FTS5 divides further has to be found as it is written.
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
    let typed: String = term.chars().filter(char::is_ascii_digit).collect();
    if let Some((digits, is_international)) = digits(term).filter(|_| typed.len() >= MIN_END) {
        // As it is: the end of a number may begin with a zero.
        question.push_str(&format!(" OR \"{}\"*", backwards(&typed)));
        if typed != digits && digits.len() >= MIN_NUMBER {
            question.push_str(&format!(" OR \"{}\"*", backwards(&digits)));
        }
        if is_international {
            // The record may hold the number without its country.
            for cut in 1..=MAX_COUNTRY.min(digits.len().saturating_sub(MIN_NUMBER)) {
                let national = digits[cut..].trim_start_matches('0');
                question.push_str(&format!(" OR \"{}\"", backwards(national)));
            }
        }
    }
    Some(question)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_indexed_by_its_words_and_the_end_of_its_numbers() {
        let body = r#"{"id":12,"name":"Zoë","status_stage":"open","created_at":"2026-03-01T00:00:00.5Z",
            "mobile_country_code":"+44","mobile_number":"07700 900123","tags":["a",{"b":"c"}],"paid":true,"amount":1.5}"#;
        let text = of_record(body);
        for word in ["12 ", "Zoë ", "07700 900123 ", "r321009007744 ", "a c "] {
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
        let number = question("07700 900123").unwrap();
        assert_eq!(number, r#""07700" "900123"* OR "r32100900770"* OR "r3210090077"*"#);
        let abroad = question("+44 (0)7700 900123").unwrap();
        assert!(
            abroad.contains(r#"OR "r321009007744"* "#) && abroad.contains(r#"OR "r3210090077""#)
        );
    }
}
