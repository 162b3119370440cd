//! How texts, numbers and lengths of time are written for people. Pure.

pub mod escape;
pub mod number;
pub mod table;

pub use shopmirror_core::duration;

/// A text as the beginning of a sentence.
#[must_use]
pub fn first_upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}
