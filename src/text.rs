//! How texts, numbers and lengths of time are written for people. Pure.

pub mod escape;
pub mod number;
pub mod table;

pub use shopmirror_core::duration;
