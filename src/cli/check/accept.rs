//! `check --accept-workspace`: takes the workspace that answers now for the one that filled the store.

use std::process::ExitCode;

use crate::cli::exit::{DATA, ExitError};
use crate::cli::output;
use crate::clock::Clock;
use crate::config::Config;
use crate::store::{Acceptance, Operator, OtherWorkspace};

/// Accepts the workspace to which the address and the key lead; a running daemon notices it.
pub(super) fn run(config: &Config) -> anyhow::Result<ExitCode> {
    let mut operator = Operator::open(&config.store.path)?;
    let account = crate::daemon::client(config, Clock::system())?.account();
    let text = match operator.accept_workspace(&account)? {
        Acceptance::Met(OtherWorkspace { expected, found, .. }) => format!(
            "the store belongs to {found} from now on, before to {expected}; a daemon polls again within seconds"
        ),
        Acceptance::Unnamed { name } => format!(
            "the address and the key are accepted as those of {name}, without a look at the name; a daemon polls again within seconds"
        ),
        Acceptance::Outdated(OtherWorkspace { found, .. }) => {
            let text = format!(
                "{found} was met with another address or key than those that are configured now, so it is not accepted: reload the daemon or run `shopmirror once`, then run `shopmirror check`"
            );
            return Err(ExitError { code: DATA, text }.into());
        }
        Acceptance::Nothing => {
            let text = "there is nothing to accept: the address and the key are those of before";
            return Err(ExitError { code: DATA, text: text.to_owned() }.into());
        }
    };
    output::text(&format!("{}\n", output::plain(&text)))?;
    Ok(ExitCode::SUCCESS)
}
