//! Finds the names, filters and tests that a template uses, with their places.
//!
//! The template engine reports an unknown filter only when a run gets to it, and an unknown name
//! without its place. Both are wanted before the first change. It reads only what is inside tags.

/// How a word is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Called {
    /// A name, or a word of the language.
    Name,
    /// After `|`.
    Filter,
    /// After `is` or `is not`.
    Test,
}

/// One word inside a tag.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Use<'t> {
    pub(super) called: Called,
    pub(super) word: &'t str,
    /// Its byte in the template.
    pub(super) at: usize,
}

/// Every word inside the tags of a template, in order; attributes after a dot are left out.
pub(super) fn uses(source: &str) -> Vec<Use<'_>> {
    let mut uses = Vec::new();
    let mut at = 0;
    while let Some(found) = source[at..].find('{') {
        let start = at + found;
        let (end, is_tag) = match source.as_bytes()[start..].get(1) {
            Some(b'#') => ("#}", false),
            Some(b'{') => ("}}", true),
            Some(b'%') => ("%}", true),
            _ => {
                at = start + 1;
                continue;
            }
        };
        let inside = start + 2;
        let length = length_of_tag(&source[inside..], end);
        if is_tag {
            let first = uses.len();
            words(&source[inside..inside + length], inside, &mut uses);
            if uses.len() == first + 1 && uses[first].word == "raw" {
                uses.pop();
                at = source[inside..].find("endraw").map_or(source.len(), |at| inside + at);
                continue;
            }
        }
        at = (inside + length + end.len()).min(source.len());
    }
    uses
}

/// The bytes up to the end mark, which does not count inside a string.
fn length_of_tag(text: &str, end: &str) -> usize {
    let mut quote: Option<char> = None;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if character == '\\' => escaped = true,
            Some(open) if character == open => quote = None,
            Some(_) => {}
            None if text[at..].starts_with(end) => return at,
            None if end != "#}" && (character == '"' || character == '\'') => {
                quote = Some(character);
            }
            None => {}
        }
    }
    text.len()
}

fn words<'t>(text: &'t str, offset: usize, uses: &mut Vec<Use<'t>>) {
    let begins = |c: char| c.is_alphabetic() || c == '_';
    let mut next = Called::Name;
    let mut after_dot = false;
    let mut at = 0;
    while let Some(character) = text[at..].chars().next() {
        if character == '"' || character == '\'' {
            at += 1;
            at += string_length(&text[at..], character);
            (next, after_dot) = (Called::Name, false);
        } else if begins(character) {
            let length = text[at..]
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(text.len() - at);
            let word = &text[at..at + length];
            match (next, word) {
                (_, _) if after_dot => next = Called::Name,
                (Called::Name, "is") => next = Called::Test,
                (Called::Test, "not") => {}
                (called, _) => {
                    uses.push(Use { called, word, at: offset + at });
                    next = Called::Name;
                }
            }
            after_dot = false;
            at += length;
        } else {
            match character {
                '|' => next = Called::Filter,
                '.' => after_dot = true,
                c if c.is_whitespace() => {}
                _ => (next, after_dot) = (Called::Name, false),
            }
            at += character.len_utf8();
        }
    }
}

/// The bytes of a string up to and with its closing quote.
fn string_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}
