//! The commands: arguments, the shape of their output, exit codes.
//!
//! Thin: each command opens what it needs and shows it. Every listing has `--json`; what a person
//! reads has foreign text escaped. Exit codes are those of sysexits(3).

mod backfill;
mod backup;
mod check;
mod copying;
mod custom_fields;
mod dead;
#[cfg(feature = "sandbox")]
mod demo;
mod direct;
mod exit;
mod forget;
mod gaps;
mod log;
mod logging;
mod man;
mod once;
mod output;
mod plan;
mod rebuild;
mod records;
mod restore;
mod run;
#[cfg(feature = "sandbox")]
mod sandbox;
mod search;
mod show;
mod simulate;
mod sinks;
mod status;
mod trace;
mod verify;
mod why;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand, ValueHint};
use secrecy::SecretString;

use crate::config::Config;
use crate::record::{Kind, Route};
use exit::{USAGE, code_of};

/// Where the configuration is looked for when `--config` is not given.
const PLACES: [&str; 2] = ["config.toml", "/etc/shopmirror/config.toml"];

/// Mirrors a repair shop's workspace into SQLite and forwards every new and changed record.
#[derive(Debug, Parser)]
#[command(name = "shopmirror", version, max_term_width = 100)]
struct Cli {
    /// The configuration [default: ./config.toml, else /etc/shopmirror/config.toml]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon: poll, store, deliver
    Run,
    /// Poll every route once, deliver, and end: for cron and CI
    Once,
    /// Show everything at work on this machine alone: sandbox, daemon, a file and a webhook
    #[cfg(feature = "sandbox")]
    Demo(demo::Args),
    /// Run the imitation of the workspace API alone
    #[cfg(feature = "sandbox")]
    Sandbox(sandbox::Args),
    /// Say what is wrong with the configuration, the key, the address and the sinks; writes nothing
    Check(check::Args),
    /// Show how everything stands
    Status(Json),
    /// Say how often a route is asked, and why
    Why(why::Args),
    /// Say whether the budget keeps every route from losing records
    Plan(Json),
    /// Run the schedule beside fixed ones on a virtual clock
    Simulate(simulate::Args),
    /// Print when records arrived, as `seconds,route,id`, for `simulate --trace`
    Trace,
    /// List the records of a route, the most lately changed first
    Records {
        /// jobs, customers, leads, payments, job_status_changes or outsourced_jobs
        route: Route,
        /// Only records whose column has this value; may be given several times
        #[arg(long = "where", value_name = "COLUMN=VALUE", value_parser = pair)]
        wheres: Vec<(String, String)>,
        /// At most this many
        #[arg(long, default_value_t = 50)]
        limit: u32,
        #[command(flatten)]
        json: Json,
    },
    /// Show one record and how it came to be
    Show {
        /// The record's route
        route: Route,
        /// The record's id
        id: String,
        #[command(flatten)]
        json: Json,
    },
    /// List the changes, the latest last
    Log {
        /// Go on with what comes, until interrupted
        #[arg(long, short)]
        follow: bool,
        /// Only changes after this number
        #[arg(long, value_name = "SEQ")]
        after: Option<i64>,
        /// Only changes of this route
        #[arg(long)]
        route: Option<Route>,
        /// Only changes of this kind: baseline, created, updated, gap or forgotten
        #[arg(long)]
        kind: Option<Kind>,
        /// At most this many
        #[arg(long, default_value_t = 50)]
        limit: u32,
        #[command(flatten)]
        json: Json,
    },
    /// Ask the workspace for customers by name, e-mail or number; costs one request, which may take a
    /// minute to get while polls need the budget
    Search {
        /// 1 to 100 characters
        #[arg(value_parser = search_term)]
        term: String,
        /// Search this business; the first configured one by default
        #[arg(long, value_name = "ID")]
        business: Option<String>,
        /// Store what is found, and forward who is new
        #[arg(long)]
        store: bool,
        #[command(flatten)]
        json: Json,
    },
    /// Collect customers older than the newest hundred by searching for them
    Backfill(backfill::Args),
    /// List the intervals in which records may have been missed, or accept them
    Gaps(gaps::Args),
    /// List the custom fields of the workspace's forms
    CustomFields {
        /// Read them from the workspace first; costs one request, and one a form
        #[arg(long)]
        refresh: bool,
        /// Read and list this business only
        #[arg(long, value_name = "ID")]
        business: Option<String>,
        #[command(flatten)]
        json: Json,
    },
    /// List the sinks and where they stand
    Sinks(Json),
    /// Look at, send again or forget the changes that a sink refused for good
    Dead(dead::Args),
    /// Remove one record's data from the mirror and the log, for example for a privacy request
    Forget(forget::Args),
    /// Make the mirror tables again from the log, while no daemon runs
    Rebuild(Json),
    /// Copy the store into one file, checked, while the daemon runs or not
    Backup(backup::Args),
    /// Put a backup in the place of the store; refused while a daemon runs
    Restore(restore::Args),
    /// Prove that the file, the log, the mirror and each sink's counts agree; exits 65 if not
    Verify(Json),
    /// Print a completion script
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
    /// Print the manual page of the program, or of one of its commands
    Man {
        /// The command: `man run` prints shopmirror-run(1)
        command: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, clap::Args)]
struct Json {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write COLUMN=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn search_term(text: &str) -> Result<String, String> {
    match text.chars().count() {
        1..=100 if !text.trim().is_empty() => Ok(text.to_owned()),
        _ => Err("a search term has 1 to 100 characters".to_owned()),
    }
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Nothing can be done about a terminal that takes no text.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    match execute(cli) {
        Ok(code) => code,
        Err(error) if exit::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let advice = exit::advice(&error).unwrap_or_default();
            output::aside(&format!("shopmirror: {error:#}{advice}"));
            ExitCode::from(code_of(&error))
        }
    }
}

fn execute(cli: Cli) -> anyhow::Result<ExitCode> {
    let place = cli.config;
    match cli.command {
        Command::Run => run::run(&config_path(place)?),
        Command::Once => once::run(&config_path(place)?),
        #[cfg(feature = "sandbox")]
        Command::Demo(args) => demo::run(&args),
        #[cfg(feature = "sandbox")]
        Command::Sandbox(args) => sandbox::run(&args),
        Command::Check(args) => check::run(&config_path(place)?, &args),
        Command::Status(json) => status::run(&config_path(place)?, json.json),
        Command::Why(args) => why::run(&load(place)?, &args),
        Command::Plan(json) => plan::run(&load(place)?, json.json),
        Command::Simulate(args) => simulate::run(&args),
        Command::Trace => trace::run(&load(place)?),
        Command::Sinks(json) => sinks::run(&load(place)?, json.json),
        Command::Backfill(args) => backfill::run(&load(place)?, &args),
        Command::Gaps(args) => gaps::run(&load(place)?, args),
        Command::Records { route, wheres, limit, json } => {
            records::run(&load(place)?, route, wheres, limit as usize, json.json)
        }
        Command::Show { route, id, json } => show::run(&load(place)?, route, &id, json.json),
        Command::Log { follow, after, route, kind, limit, json } => {
            let wanted = log::LogFilter { after, route, kind, limit: limit as usize };
            log::run(&load(place)?, &wanted, follow, json.json)
        }
        Command::Search { term, business, store, json } => {
            search::run(&load(place)?, &term, business, store, json.json)
        }
        Command::CustomFields { refresh, business, json } => {
            custom_fields::run(&load(place)?, refresh, business, json.json)
        }
        Command::Dead(args) => dead::run(&load(place)?, args),
        Command::Forget(args) => forget::run(&load(place)?, &args),
        Command::Rebuild(json) => rebuild::run(&load(place)?, json.json),
        Command::Backup(args) => backup::run(&load(place)?, &args),
        Command::Restore(args) => restore::run(&load(place)?, args),
        Command::Verify(json) => verify::run(&load(place)?, json.json),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "shopmirror", &mut text);
            output::raw(&text)
        }
        Command::Man { command } => man::run(Cli::command(), command.as_deref()),
    }
}

/// Where the configuration is.
fn config_path(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(path) = given {
        return Ok(path);
    }
    let places = || PLACES.iter().map(PathBuf::from);
    // Failing all else a place that this user may not look into: reading it says so.
    let hidden = || places().rev().find(|path| path.try_exists().is_err());
    places().find(|path| path.exists()).or_else(hidden).ok_or_else(|| {
        anyhow::Error::new(exit::Wrong {
            code: exit::CONFIG,
            text: "there is no config.toml here and no /etc/shopmirror/config.toml: name one with --config, or try `shopmirror demo`"
                .to_owned(),
        })
    })
}

fn load(given: Option<PathBuf>) -> anyhow::Result<Config> {
    read_config(&config_path(given)?)
}

/// Reads the configuration with what the environment adds to it.
fn read_config(path: &Path) -> anyhow::Result<Config> {
    let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
    let key = std::env::var("SHOPMIRROR_API_KEY").ok().map(SecretString::from);
    Ok(Config::load(path, credentials.as_deref(), key)?)
}

/// Threads for the store's two connections, files, and lookups of names; each of these takes turns.
/// The unit's `TasksMax` has to hold them and the programs of command sinks.
const MOST_BLOCKING_THREADS: usize = 11;

/// A runtime for one command; one thread, since the work is waiting.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MOST_BLOCKING_THREADS)
        .thread_keep_alive(Duration::from_secs(2))
        .build()?)
}

/// Reads a clock's speed: more than zero, at most 100,000.
#[cfg(feature = "sandbox")]
fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed > 0.0 && speed <= 100_000.0 => Ok(speed),
        _ => Err("a speed is a number above 0, 100000 at most".to_owned()),
    }
}
