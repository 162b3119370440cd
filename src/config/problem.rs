//! The problems of a configuration file, each with its line and column.
//!
//! A message names keys of this program and what to write. It never repeats a value or an unknown
//! key, because any of them may be a secret.

use std::fmt;

/// One problem in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The problem and what to do.
    pub message: String,
}

impl Problem {
    /// The problem of the part of `text` that begins at the byte `at`.
    pub(super) fn new(text: &str, at: usize, message: String) -> Self {
        let before = &text[..text.floor_char_boundary(at)];
        let line_text = before.rsplit('\n').next().unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column: line_text.chars().count() + 1,
            message,
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
        Self {
            file: file.to_owned(),
            list,
        }
    }

    /// The problems in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.list.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.list.len();
        write!(
            f,
            "{count} problem{} in {}",
            if count == 1 { "" } else { "s" },
            self.file
        )?;
        for Problem {
            line,
            column,
            message,
        } in &self.list
        {
            write!(f, "\n{}:{line}:{column}: {message}", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
