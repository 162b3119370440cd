//! The exit code for each error.

use std::io;

use crate::api::ApiError;
use crate::config::{ConfigError, KeyError};
use crate::sink::SinkBuildError;
use crate::store::{BackupError, StoreError};
use crate::sysexits::IO;
pub(super) use crate::sysexits::{
    CONFIG, DATA, PERMISSION, SOFTWARE, TRY_AGAIN, UNAVAILABLE, USAGE,
};

/// An error with its own text and exit code.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(super) struct ExitError {
    pub(super) code: u8,
    pub(super) text: String,
}

/// Ends a command with this exit code and text.
pub(super) fn refuse<T>(code: u8, text: impl Into<String>) -> anyhow::Result<T> {
    Err(ExitError { code, text: text.into() }.into())
}

/// The code of an error, from the first cause that has one.
pub(super) fn code_of(error: &anyhow::Error) -> u8 {
    error.chain().find_map(code_of_cause).unwrap_or(SOFTWARE)
}

fn code_of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<u8> {
    if let Some(wrong) = cause.downcast_ref::<ExitError>() {
        return Some(wrong.code);
    }
    if cause.is::<ConfigError>()
        || cause.is::<KeyError>()
        || cause.is::<SinkBuildError>()
        || cause.is::<crate::api::TransportBuildError>()
    {
        return Some(CONFIG);
    }
    if let Some(error) = cause.downcast_ref::<BackupError>() {
        return Some(code_of_backup(error));
    }
    #[cfg(feature = "sandbox")]
    if let Some(::sandbox::StateError::Foreign { .. } | ::sandbox::StateError::Other { .. }) =
        cause.downcast_ref()
    {
        return Some(DATA);
    }
    if let Some(error) = cause.downcast_ref::<StoreError>() {
        return Some(code_of_store(error));
    }
    if let Some(error) = cause.downcast_ref::<ApiError>() {
        return Some(code_of_api(error));
    }
    cause.downcast_ref::<io::Error>().map(code_of_io)
}

fn code_of_backup(error: &BackupError) -> u8 {
    match error {
        BackupError::Exists(_) | BackupError::Unfit(_) | BackupError::IsTheStore(_) => USAGE,
        BackupError::NotABackup { .. } | BackupError::Unsound(_) => DATA,
        BackupError::NoRoom { .. } | BackupError::Stopped => TRY_AGAIN,
        BackupError::Store(error) | BackupError::Copy { source: error, .. } => code_of_store(error),
    }
}

fn code_of_store(error: &StoreError) -> u8 {
    match error {
        StoreError::Held { .. }
        | StoreError::Full
        | StoreError::Limit(_)
        | StoreError::Busy
        | StoreError::TooLong
        | StoreError::NoSearchIndex => TRY_AGAIN,
        StoreError::Missing(_) | StoreError::Older { .. } => UNAVAILABLE,
        StoreError::NetworkFileSystem { .. } | StoreError::Linked { .. } => CONFIG,
        StoreError::Io { source, .. } => code_of_io(source),
        StoreError::Foreign { .. } | StoreError::Newer { .. } | StoreError::Corrupt(_) => DATA,
        StoreError::Gone(_) | StoreError::Sqlite(_) => IO,
        StoreError::Closing => SOFTWARE,
    }
}

/// What to do about a store that this user may not use.
pub(super) fn advice(error: &anyhow::Error) -> Option<&'static str> {
    let refused = |cause: &StoreError| matches!(cause, StoreError::Io { source, .. } if code_of_io(source) == PERMISSION);
    error
        .chain()
        .any(|cause| match cause.downcast_ref() {
            // It shows the inner error as its own, which is then no cause of its own.
            Some(BackupError::Store(inner)) => refused(inner),
            _ => cause.downcast_ref().is_some_and(refused),
        })
        .then_some("; run this as root, or as the user of the service")
}

/// The code for an error of the workspace.
pub(super) fn code_of_api(error: &ApiError) -> u8 {
    crate::daemon::exit_code(error)
}

pub(super) fn code_of_io(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::PermissionDenied { PERMISSION } else { IO }
}

/// True if the reader of the output has closed it, as `head` does. That is not an error.
pub(super) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
