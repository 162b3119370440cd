//! Exit codes, as sysexits(3) names them.
//!
//! The commands end with one of these. The daemon sends one in its reply when a command's request
//! fails, so that the command ends as if it had sent the request itself.

/// The command line is wrong.
pub const USAGE: u8 = 64;
/// The requested data does not exist, or a file is damaged.
pub const DATA: u8 = 65;
/// The workspace or the daemon does not respond.
pub const UNAVAILABLE: u8 = 69;
/// A fault of the program.
pub const SOFTWARE: u8 = 70;
/// A file cannot be read or written.
pub const IO: u8 = 74;
/// The same command may succeed later.
pub const TRY_AGAIN: u8 = 75;
/// Not permitted.
pub const PERMISSION: u8 = 77;
/// The configuration must be fixed.
pub const CONFIG: u8 = 78;
