//! Makes the text of a record one that PostgreSQL can hold as `jsonb`: pure.
//!
//! `jsonb` has no NUL character, no half of a surrogate pair and no number of more than 131,072
//! digits. Each such character becomes U+FFFD and each such number a string. The caller keeps the
//! exact text beside it whenever something was replaced.

use std::borrow::Cow;

/// A number whose text or exponent is larger than this becomes a string.
const NUMBER_MAX: usize = 1000;
const REPLACEMENT: &str = "\\ufffd";

/// Valid JSON text that `jsonb` holds; borrowed if nothing had to be replaced.
pub(super) fn storable(json: &str) -> Cow<'_, str> {
    let mut out = String::new();
    // Everything before this is in `out`, if anything was replaced at all.
    let mut kept = 0;
    let mut at = 0;
    let bytes = json.as_bytes();
    let mut replace = |from: usize, to: usize, by: &str| {
        out.push_str(&json[kept..from]);
        out.push_str(by);
        kept = to;
    };
    while at < bytes.len() {
        at = match bytes[at] {
            b'"' => string_end(json, at, &mut replace),
            b'-' | b'0'..=b'9' => {
                let end = number_end(bytes, at);
                if !is_small(&json[at..end]) {
                    replace(at, end, &format!("\"{}\"", &json[at..end]));
                }
                end
            }
            _ => at + 1,
        };
    }
    if kept == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(&json[kept..]);
    Cow::Owned(out)
}

/// Text that a column of type `text` holds.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// The place after the string that begins at `start`; replaces what it must not hold.
fn string_end(json: &str, start: usize, replace: &mut impl FnMut(usize, usize, &str)) -> usize {
    let bytes = json.as_bytes();
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' if bytes.get(at + 1) == Some(&b'u') => {
                let end = (at + 6).min(bytes.len());
                at = match unit(json, at) {
                    Some(0xd800..=0xdbff) if matches!(unit(json, end), Some(0xdc00..=0xdfff)) => {
                        end + 6
                    }
                    Some(0 | 0xd800..=0xdfff) => {
                        replace(at, end, REPLACEMENT);
                        end
                    }
                    _ => end,
                };
            }
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The code unit of the escape `\uXXXX` at this place; `None` if there is none.
fn unit(json: &str, at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
    u16::from_str_radix(digits, 16).ok()
}

fn number_end(bytes: &[u8], start: usize) -> usize {
    let part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
    start + bytes[start..].iter().take_while(|byte| part(byte)).count()
}

fn is_small(number: &str) -> bool {
    let exponent = number.split_once(['e', 'E']).map_or("0", |(_, exponent)| exponent);
    let exponent = exponent.trim_start_matches(['+', '-']).parse::<usize>();
    number.len() <= NUMBER_MAX && exponent.is_ok_and(|exponent| exponent <= NUMBER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_jsonb_holds_is_left_as_it_is() {
        for json in [
            r#"{"id":1,"amount":10.10,"note":"a \" \\u0000 é 😀 \ud83d\ude00 \n"}"#,
            r#"[1e3,-0,1e-1000,null,true,""]"#,
            "{}",
        ] {
            assert!(matches!(storable(json), Cow::Borrowed(_)), "{json}");
        }
    }

    #[test]
    fn what_jsonb_cannot_hold_is_replaced() {
        for (json, held) in [
            (r#"{"a\u0000":"\u0000x"}"#, r#"{"a\ufffd":"\ufffdx"}"#),
            (r#""\\\u0000\\u0000""#, r#""\\\ufffd\\u0000""#),
            (r#""\ud800""#, r#""\ufffd""#),
            (r#""\ud800\ud800\udc00""#, r#""\ufffd\ud800\udc00""#),
            (r#""\uDC00a\uD83D\n""#, r#""\ufffda\ufffd\n""#),
            (r#"[1e1001,-1E+99999999999999999999]"#, r#"["1e1001","-1E+99999999999999999999"]"#),
        ] {
            assert_eq!(storable(json), held, "{json}");
        }
        let long = "9".repeat(1001);
        assert_eq!(storable(&long), format!("\"{long}\""));
        assert_eq!(plain("a\0b"), "a\u{fffd}b");
    }
}
