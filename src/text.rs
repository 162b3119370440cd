//! How texts, numbers and lengths of time are written for people, and bytes as digits. Pure.

pub mod document;
pub mod escape;
pub mod locale;
pub mod names;
pub mod number;
mod quotation;
pub mod table;

use bytes::Bytes;
pub use quotation::Quotation;
pub use shopmirror_core::duration;

/// Bytes as hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    format!("{:x}", Bytes::copy_from_slice(bytes))
}

/// A text as the beginning of a sentence.
#[must_use]
pub fn first_upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}
