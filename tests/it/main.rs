//! The integration tests: the library and the program as their users meet them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod config_files;
