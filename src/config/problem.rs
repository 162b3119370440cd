//! The problems of a configuration file, each with its line.
//!
//! A configuration holds secrets. The quoted line therefore shows the keys and the value that the
//! problem is about, unless that value may be a secret. All other letters and digits become `*`,
//! which keeps every column in its place.

use std::fmt;
use std::ops::Range;

use crate::escape::is_unsafe;

/// A line longer than this is not quoted.
const QUOTED_LINE_MAX: usize = 160;

/// A longer text is neither a key nor a word of this file.
const KEY_MAX: usize = 60;

/// One problem in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    line: usize,
    column: usize,
    message: String,
    excerpt: Option<Excerpt>,
}

/// The line of a problem and the part to underline, in characters.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Excerpt {
    line: String,
    marked: Range<usize>,
}

/// How much of the value at a problem's place may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quote {
    /// The place holds a key, or a value that is no secret.
    Shown,
    /// The place holds an address without user, password and query.
    Address,
    /// The place may hold a secret.
    Masked,
    /// There is nothing to quote, because something is missing.
    Nothing,
}

impl Problem {
    /// The problem with the part of `text` at `place`.
    pub(super) fn new(text: &str, place: Range<usize>, quote: Quote, message: &str) -> Self {
        let start = floor_char(text, place.start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let line = text[line_start..line_end].trim_end_matches('\r');
        let from = text[line_start..start].chars().count();
        let end = floor_char(text, place.end).clamp(start, (line_start + line.len()).max(start));
        let width = text[start..end].chars().count().max(1);
        let public = match quote {
            Quote::Address => true,
            Quote::Shown => !looks_secret(&text[start..end]),
            Quote::Masked | Quote::Nothing => false,
        };
        let shown = if public { from..from + width } else { 0..0 };
        let quotable = quote != Quote::Nothing
            && !line.trim().is_empty()
            && line.chars().count() <= QUOTED_LINE_MAX;
        Self {
            line: text[..line_start].matches('\n').count() + 1,
            column: from + 1,
            // A quoted key may hold any character, also one that controls a terminal.
            message: message.replace(is_unsafe, "\u{fffd}"),
            excerpt: quotable
                .then(|| Excerpt { line: masked(line, &shown), marked: from..from + width }),
        }
    }

    /// The line, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// The column, from 1, in characters.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }

    /// The problem and what to do.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// True if a value looks like an address or a signing secret, or is too long for a word. By mistake,
/// a secret can be the value of any key.
fn looks_secret(value: &str) -> bool {
    value.contains("://") || value.contains("whsec_") || value.chars().count() > KEY_MAX
}

/// A value as a message may repeat it.
pub(super) fn repeated(value: &str) -> String {
    if looks_secret(value) { "this value".to_owned() } else { format!("{value:?}") }
}

/// A key as a message may repeat it, after a space; empty if it may not.
pub(super) fn named(key: &str) -> String {
    if looks_secret(key) { String::new() } else { format!(" `{key}`") }
}

/// A part of a dotted name as a message may repeat it.
pub(super) fn shown(key: &str) -> &str {
    if looks_secret(key) { "(not shown)" } else { key }
}

fn floor_char(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The line with every letter and digit that is neither key nor `shown` replaced.
fn masked(line: &str, shown: &Range<usize>) -> String {
    let mut in_value = !starts_with_key(line);
    line.chars()
        .enumerate()
        .map(|(at, c)| {
            let public = !in_value || shown.contains(&at);
            in_value |= c == '=' || c == '#';
            match c {
                '\t' => '\t',
                c if is_unsafe(c) => '\u{fffd}',
                c if c.is_alphanumeric() && !public => '*',
                c => c,
            }
        })
        .collect()
}

/// True if the line begins with a key and `=`, or is the header of a table.
///
/// A line inside a multi-line value can also contain `=`, because base64 ends in it. Text that does
/// not look like one of our keys, or may be a secret, is therefore not taken for a key.
fn starts_with_key(line: &str) -> bool {
    match line.split_once('=') {
        Some((key, _)) => {
            let usual =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || " \t_-.".contains(c);
            !looks_secret(key) && key.chars().all(usual)
        }
        None => {
            let header = line.split('#').next().unwrap_or(line).trim();
            header.starts_with('[') && !looks_secret(header)
        }
    }
}

/// All problems of one file, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    file: String,
    list: Vec<Problem>,
}

impl Problems {
    pub(super) fn new(file: &str, mut list: Vec<Problem>) -> Self {
        list.sort_by_key(|problem| (problem.line, problem.column));
        Self { file: file.to_owned(), list }
    }

    /// The first problem in one line, and the number of the others.
    #[must_use]
    pub fn summary(&self) -> String {
        let Some(Problem { line, column, message, .. }) = self.list.first() else {
            return self.to_string();
        };
        let more = match self.list.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        format!("{}:{line}:{column}: {message}{more}", self.file)
    }

    /// The problems in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.list.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.list.len();
        write!(f, "{count} problem{} in {}", if count == 1 { "" } else { "s" }, self.file)?;
        for problem in &self.list {
            let Problem { line, column, message, excerpt } = problem;
            write!(f, "\n{}:{line}:{column}: {message}", self.file)?;
            if let Some(Excerpt { line: quoted, marked }) = excerpt {
                let number = line.to_string();
                let gap: String = quoted
                    .chars()
                    .chain(std::iter::repeat(' '))
                    .take(marked.start)
                    .map(|c| if c == '\t' { '\t' } else { ' ' })
                    .collect();
                write!(f, "\n  {number} | {quoted}")?;
                write!(f, "\n  {:1$} | {gap}{2}", "", number.len(), "^".repeat(marked.len()))?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, part: &str, quote: Quote) -> String {
        let at = text.find(part).unwrap();
        let problem = Problem::new(text, at..at + part.len(), quote, "bad");
        Problems::new("f", vec![problem]).to_string()
    }

    #[test]
    fn a_problem_is_underlined_at_its_line_and_column() {
        let text = "[poll]\n\tlimit = 500 # all\n";
        let wanted = "1 problem in f\nf:2:10: bad\n  2 | \tlimit = 500 # ***\n    | \t        ^^^";
        assert_eq!(shown(text, "500", Quote::Shown), wanted);
    }

    #[test]
    fn a_line_inside_a_multi_line_value_is_masked_whole() {
        for line in ["whsec_CANARY", "whsec_CANARY==", "\"whsec_CANARY=\", # CANARY"] {
            let quoted = shown(&format!("secret = [\n  {line}\n]"), "whsec", Quote::Masked);
            assert!(!quoted.contains("CANARY") && !quoted.contains("whsec"), "{quoted}");
        }
    }
}
