//! `workspace`: shows which workspace the store belongs to, and accepts the one that answers now.

use std::process::ExitCode;

use clap::Subcommand;

use super::exit::{DATA, ExitError};
use super::moment;
use super::output::{self, cell};
use crate::clock::stamp;
use crate::config::Config;
use crate::store::{Operator, OtherWorkspace, Reader};

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
    /// Take the workspace that answers now for the one that filled the store, because the shop was renamed
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
        (Some(OtherWorkspace { expected, found, .. }), _) => format!(
            "the store belongs to {} from now on, before to {}; a daemon polls again within seconds",
            cell(&found, NAME),
            cell(&expected, NAME)
        ),
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

/// Accepts the workspace that was met; a running daemon notices it by itself.
fn accept(config: &Config) -> anyhow::Result<OtherWorkspace> {
    let mut operator = Operator::open(&config.store.path)?;
    operator.accept_workspace()?.ok_or_else(|| {
        let text = "there is nothing to accept: no other workspace has answered".to_owned();
        ExitError { code: DATA, text }.into()
    })
}
