//! `reload`: lets the daemon read its configuration and key again, and ends as the daemon decides.

use std::path::Path;
use std::process::ExitCode;

use super::current::decode;
use super::exit::{PERMISSION, TRY_AGAIN, UNAVAILABLE, refuse};
use super::output;
use super::runtime;
use crate::config::Config;
use crate::control::{self, ControlError, ControlRequest, Refusal};

/// Requests a reload from the daemon of the configuration at `path`, which may have a mistake.
pub(super) fn run(path: &Path) -> anyhow::Result<ExitCode> {
    let store = Config::named_store_path(path)?;
    let reply = runtime()?.block_on(control::send(&store, &ControlRequest::Reload));
    match reply {
        Ok(reply) => decode::<Result<(), Refusal>>(&reply)??,
        Err(error @ ControlError::NotRunning) => {
            let store = store.display();
            return refuse(
                UNAVAILABLE,
                format!(
                    "{error}: {store}; start it. If [store] path has changed, restart it instead"
                ),
            );
        }
        Err(error @ ControlError::NotPermitted) => return refuse(PERMISSION, error.to_string()),
        Err(ControlError::NoReply(_)) => {
            return refuse(
                TRY_AGAIN,
                "the daemon gave no reply, because it stops or hangs: see `shopmirror status`",
            );
        }
        Err(error) => return refuse(TRY_AGAIN, error.to_string()),
    }
    output::text("the daemon continues with the configuration as it is now\n")
}
