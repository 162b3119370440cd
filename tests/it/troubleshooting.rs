//! `docs/troubleshooting.md` and the messages of the program belong together: each error has a row
//! with a remedy, and each row quotes a message that the program still has.

use std::fs;
use std::path::{Path, PathBuf};

/// Errors that are never printed alone, and where their text stands.
const INSIDE: [(&str, &str); 3] = [
    ("src/api/page.rs", "in `the response was refused and nothing of it was stored: …`"),
    ("src/record.rs", "the same, for the id of a record; and `unknown route …`"),
    ("src/sink/email/message.rs", "in `the mail cannot be written: …`"),
];

/// The exit codes of sysexits(3) that the program uses for a start that fails.
const EXIT_CODES: [&str; 7] = ["64", "65", "70", "74", "75", "77", "78"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// A source without its comments and without quotes that begin no string.
fn code(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n").replace("'\"'", "' '").replace("'\\\"'", "' '")
}

/// The string literals of a source in order, each with `…` for its placeholders, and what stands
/// before it.
fn literals(text: &str) -> Vec<(String, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('"') {
        let before = rest[..start].trim_end();
        let mut literal = String::new();
        let mut letters = rest[start + 1..].char_indices();
        let mut end = rest.len();
        while let Some((place, letter)) = letters.next() {
            match letter {
                '"' => {
                    end = start + 1 + place + 1;
                    break;
                }
                '\\' => match letters.next() {
                    // The line goes on below.
                    Some((_, '\n')) => {
                        let after = &rest[start + 1 + letters.offset()..];
                        let blanks = after.len() - after.trim_start().len();
                        letters.by_ref().take(blanks).for_each(|_| ());
                    }
                    Some((_, escaped)) => literal.push(escaped),
                    None => {}
                },
                letter => literal.push(letter),
            }
        }
        found.push((without_placeholders(&literal), before));
        rest = &rest[end..];
    }
    found
}

fn without_placeholders(literal: &str) -> String {
    let mut text = String::new();
    let mut rest = literal;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((_, behind)) = after.split_once('}') else { break };
        text.push_str(before);
        text.push('…');
        rest = behind;
    }
    text + rest
}

/// The messages that a row of the document quotes.
fn quoted(row: &str) -> Vec<&str> {
    let first = row.split(" | ").next().unwrap_or_default();
    first.split('`').skip(1).step_by(2).collect()
}

fn rows(document: &str) -> impl Iterator<Item = &str> {
    document.lines().filter(|line| line.starts_with("| ") && line.contains('`'))
}

/// True if `message` has the words of `quote` in this order; `…` stands for any text.
fn has(message: &str, quote: &str) -> bool {
    let mut rest = Some(message);
    for piece in quote.split('…') {
        rest = rest.and_then(|rest| rest.find(piece).map(|place| &rest[place + piece.len()..]));
    }
    rest.is_some()
}

struct Messages {
    /// Every string of the program.
    all: Vec<String>,
    /// The texts of error types, each with its file.
    errors: Vec<(String, String)>,
}

fn messages() -> Messages {
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    let (mut all, mut errors) = (Vec::new(), Vec::new());
    for file in files {
        let text = code(&fs::read_to_string(&file).unwrap());
        let name = file.strip_prefix(root()).unwrap().display().to_string();
        for (literal, before) in literals(&text) {
            if before.ends_with("#[error(") {
                errors.push((name.clone(), literal.clone()));
            }
            all.push(literal);
        }
    }
    Messages { all, errors }
}

fn document() -> String {
    fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap()
}

#[test]
fn every_error_of_the_program_has_a_row_with_a_remedy() {
    let document = document();
    let quotes: Vec<&str> = rows(&document).flat_map(quoted).collect();
    let Messages { errors, .. } = messages();
    assert!(errors.len() > 80, "only {} errors were found", errors.len());
    let missing: Vec<&(String, String)> = errors
        .iter()
        .filter(|(file, _)| !INSIDE.iter().any(|(inside, _)| inside == file))
        .filter(|(_, message)| message.chars().any(char::is_alphabetic))
        .filter(|(_, message)| !quotes.iter().any(|quote| has(message, quote)))
        .collect();
    assert!(missing.is_empty(), "docs/troubleshooting.md has no row for: {missing:#?}");
    for row in rows(&document) {
        let cells = row.trim_matches('|').split('|');
        assert!(cells.into_iter().all(|cell| !cell.trim().is_empty()), "an empty cell: {row}");
    }
}

#[test]
fn every_message_that_the_document_quotes_is_one_of_the_program() {
    let document = document();
    let Messages { all, .. } = messages();
    let stale: Vec<&str> = rows(&document)
        .flat_map(quoted)
        .filter(|quote| !all.iter().any(|message| has(message, quote)))
        .collect();
    assert!(stale.is_empty(), "the program says none of these: {stale:#?}");
}

#[test]
fn every_exit_code_of_a_failed_start_and_every_reason_of_a_pause_is_explained() {
    let document = document();
    for code in EXIT_CODES {
        assert!(
            rows(&document).any(|row| row[2..].split(" | ").next().unwrap().contains(code))
                || document.contains(&format!("| {code} |")),
            "exit code {code}"
        );
    }
    let pauses = fs::read_to_string(root().join("src/poll/pause.rs")).unwrap();
    let words: Vec<&str> = pauses
        .lines()
        .filter_map(|line| {
            line.trim().strip_prefix("Self::")?.split_once(" => \"")?.1.split('"').next()
        })
        .collect();
    assert!(words.len() >= 5, "{words:?}");
    for word in words {
        assert!(rows(&document).any(|row| quoted(row).contains(&word)), "{word}");
    }
}

#[test]
fn literals_are_read_with_their_escapes_and_placeholders() {
    let text = "a(\"x {n} of {total:?} \\\"y\\\"\") b #[error(\n  \"one \\\n    two\"\n)]";
    let found = literals(text);
    assert_eq!(found[0].0, "x … of … \"y\"");
    assert_eq!(found[1].0, "one two");
    assert!(found[1].1.ends_with("#[error("));
    assert!(has("could not open the file", "could not … the"));
    assert!(!has("could not open the file", "the … could"));
}
