//! The exit code for each error.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use crate::api::ApiError;
use crate::config::{Config, ConfigError, KeyError};
use crate::control::Refusal;
use crate::control::exit_codes::IO;
pub(super) use crate::control::exit_codes::{
    CONFIG, DATA, PERMISSION, SOFTWARE, TRY_AGAIN, UNAVAILABLE, USAGE,
};
pub(super) use crate::daemon::exit_code as code_of_api;
use crate::sink::SinkBuildError;
use crate::store::StoreError;

/// The error that ends a command with this exit code and text.
pub(super) fn error(code: u8, text: impl Into<String>) -> anyhow::Error {
    Refusal {
        code,
        text: text.into(),
        retry_after: None,
    }
    .into()
}

/// Ends a command with this exit code and text.
pub(super) fn refuse<T>(code: u8, text: impl Into<String>) -> anyhow::Result<T> {
    Err(error(code, text))
}

/// The code of an error, from the first cause that has one.
pub(super) fn code_of(error: &anyhow::Error) -> u8 {
    error.chain().find_map(code_of_cause).unwrap_or(SOFTWARE)
}

fn code_of_cause(cause: &(dyn Error + 'static)) -> Option<u8> {
    if let Some(refusal) = cause.downcast_ref::<Refusal>() {
        return Some(refusal.code);
    }
    if cause.is::<ConfigError>()
        || cause.is::<KeyError>()
        || cause.is::<SinkBuildError>()
        || cause.is::<crate::api::TransportBuildError>()
    {
        return Some(CONFIG);
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

fn code_of_store(error: &StoreError) -> u8 {
    match error {
        StoreError::Held { .. }
        | StoreError::Full
        | StoreError::Limit(_)
        | StoreError::Busy
        | StoreError::SideFileGone(_)
        | StoreError::Replaced(_)
        | StoreError::NoRoom { .. }
        | StoreError::Stopped
        | StoreError::TooLong
        | StoreError::NoSearchIndex => TRY_AGAIN,
        StoreError::Missing(_) => UNAVAILABLE,
        StoreError::NetworkFileSystem { .. }
        | StoreError::Lost { .. }
        | StoreError::StaleLog { .. } => CONFIG,
        StoreError::NotOurs { .. } => PERMISSION,
        StoreError::Io { source, .. } => code_of_io(source),
        StoreError::Exists(_) | StoreError::Unfit(_) | StoreError::NotLost(_) => USAGE,
        StoreError::Foreign { .. }
        | StoreError::NotReplaced(_)
        | StoreError::Dumped { .. }
        | StoreError::Altered(_)
        | StoreError::Newer { .. }
        | StoreError::Corrupt(_)
        | StoreError::NotABackup { .. } => DATA,
        StoreError::Gone(_) | StoreError::Sqlite(_) => IO,
        StoreError::Closing => SOFTWARE,
    }
}

/// What to do about a store that is gone, or that this user may not use. `config` is the option
/// that was given.
pub(super) fn advice(error: &anyhow::Error, config: Option<&Path>) -> String {
    let Some(cause) = error.chain().find_map(|cause| cause.downcast_ref()) else {
        return String::new();
    };
    match cause {
        StoreError::Lost { path, newest, .. } => ways_back(path, newest.as_deref(), config),
        StoreError::NotOurs { .. } => String::new(),
        StoreError::Corrupt(_) => match damaged_store(config) {
            Some(path) => format!("; it is {}", path.display()),
            None => String::new(),
        },
        _ if code_of(error) == PERMISSION => {
            "; run this as root, or as the user of the service".to_owned()
        }
        _ => String::new(),
    }
}

/// The path of the store that a command found damaged; `None` if the configuration cannot be read.
fn damaged_store(config: Option<&Path>) -> Option<PathBuf> {
    let config = super::config_path(config.map(Path::to_owned)).ok()?;
    let path = Config::named_store_path(&config).ok()?;
    std::path::absolute(path).ok()
}

/// The commands after which the program starts again without a database that is gone.
pub(super) fn ways_back(path: &Path, newest: Option<&Path>, config: Option<&Path>) -> String {
    let path = path.display();
    let config = match config {
        Some(file) => format!(" --config {}", file.display()),
        None => String::new(),
    };
    let restored = match newest {
        Some(backup) => {
            let backup = backup.display();
            format!("or restore the newest backup: `shopmirror restore {backup}{config}`; ")
        }
        None => {
            format!(
                "or, if you have a backup elsewhere, restore it: `shopmirror restore FILE{config}`; "
            )
        }
    };
    format!(
        ". Put it back: `mv FILE {path}`, or mount its disk; {restored}or begin with an empty one: \
         `shopmirror restore --new-store{config}`. Then start shopmirror again"
    )
}

fn code_of_io(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::PermissionDenied {
        PERMISSION
    } else {
        IO
    }
}

/// True if the reader of the output has closed it, as `head` does. That is not an error.
pub(super) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    for cause in error.chain() {
        if let Some(error) = cause.downcast_ref::<io::Error>()
            && error.kind() == io::ErrorKind::BrokenPipe
        {
            return true;
        }
    }
    false
}
