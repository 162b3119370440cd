//! `workspace`: shows which workspace the store belongs to, and accepts the one that answers now.

use std::process::ExitCode;

use clap::Subcommand;

use super::exit::{DATA, ExitError};
use super::moment;
use super::output::{self, cell};
use crate::clock::{Clock, stamp};
use crate::config::Config;
use crate::store::{Acceptance, Operator, OtherWorkspace, Reader};

/// The most characters of a name that are shown.
const NAME: usize = 80;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Option<WorkspaceAction>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum WorkspaceAction {
    /// Take the workspace behind base_url and the key for the one that filled the store: the shop was renamed, or its name cannot be read
    Accept,
}

/// What `workspace --json` prints.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct WorkspaceInfo {
    /// The name of the workspace that filled the store; null if it was never read.
    name: Option<String>,
    /// When that name was last read.
    read_at: Option<String>,
    /// Another workspace to which the address and key lead; null if there is none.
    other: Option<OtherInfo>,
}

/// Another workspace that was met.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OtherInfo {
    /// Its name.
    name: String,
    /// When it was met first.
    met_at: String,
}

pub(super) fn run(config: &Config, args: &Args) -> anyhow::Result<ExitCode> {
    let accepted = match args.action {
        Some(WorkspaceAction::Accept) => Some(accept(config)?),
        None => None,
    };
    let reader = Reader::open(&config.store.path)?;
    let (known, other) = (reader.workspace()?, reader.other_workspace()?);
    if args.json {
        return output::json(&WorkspaceInfo {
            read_at: known.as_ref().map(|known| stamp(known.at)),
            name: known.map(|known| known.name),
            other: other.map(|other| OtherInfo { met_at: stamp(other.at), name: other.found }),
        });
    }
    let text = match (accepted, known) {
        (Some(text), _) => text,
        (None, None) => {
            "the name of the workspace was not read yet; it is read after the first page".to_owned()
        }
        (None, Some(known)) => {
            let read_at = moment::shown(&stamp(known.at));
            format!("the store belongs to {}; its name was read {read_at}", cell(&known.name, NAME))
        }
    };
    output::text(&format!("{text}\n"))?;
    if let Some(other) = other {
        let met_at = moment::shown(&stamp(other.at));
        output::text(&format!("since {met_at}: {}\n", output::plain(&other.to_string())))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Accepts the workspace to which the address and key lead, and says so; a running daemon notices it by
/// itself.
fn accept(config: &Config) -> anyhow::Result<String> {
    let mut operator = Operator::open(&config.store.path)?;
    let account = crate::daemon::client(config, Clock::system())?.account();
    let refused = |text| Err(ExitError { code: DATA, text }.into());
    match operator.accept_workspace(&account, jiff::Timestamp::now())? {
        Acceptance::Met(OtherWorkspace { expected, found, .. }) => Ok(format!(
            "the store belongs to {} from now on, before to {}; a daemon polls again within seconds",
            cell(&found, NAME),
            cell(&expected, NAME)
        )),
        Acceptance::Unnamed { name } => Ok(format!(
            "the address and the key are taken for those of {} from now on, without a look at the name; a daemon polls again within seconds",
            cell(&name, NAME)
        )),
        Acceptance::ReusedIds => Ok(
            "the records under known ids are taken for those of the same workspace from now on; a daemon reads their routes again within a minute or so".to_owned(),
        ),
        Acceptance::Outdated(OtherWorkspace { found, .. }) => refused(format!(
            "{} was met with another address or key than those that are configured now, so it is not accepted: reload the daemon or run `shopmirror once`, then see `shopmirror workspace`",
            output::plain(&format!("{found:?}"))
        )),
        Acceptance::Nothing => refused(
            "there is nothing to accept: the address and the key are those of before".to_owned(),
        ),
    }
}
