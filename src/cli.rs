//! The command line: arguments, and one module per command.
//!
//! A command opens what it needs and prints it. Every listing has `--json`; output for people has
//! unsafe characters escaped. Exit codes are those of sysexits(3).

mod backfill;
mod backup;
mod check;
mod completions;
mod current;
#[cfg(feature = "sandbox")]
mod demo;
mod direct;
mod examples;
mod exit;
mod find;
mod forget;
mod gaps;
mod import;
mod init;
mod locale;
mod log;
mod logging;
mod moment;
mod once;
mod output;
mod person;
mod record_line;
mod records;
mod reload;
mod report;
mod restore;
mod run;
mod run_as;
#[cfg(feature = "sandbox")]
mod sandbox;
mod search;
mod signals;
mod sinks;
mod status;
#[cfg(test)]
mod tests;
mod verify;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};
use shopmirror_core::record::{Kind, Route};

use crate::config::{Config, ConfigError};
use crate::store::{self, MetaKey, Reader};
use exit::{SOFTWARE, USAGE, code_of, refuse};
use output::Output;

/// The places of the configuration if `--config` is not given.
const PLACES: [&str; 2] = ["shopmirror.toml", "/etc/shopmirror/shopmirror.toml"];

/// The version; of a build that is no release with its commit.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("SHOPMIRROR_BUILD"));

/// The end of `--help` and of the manual page.
const AFTER_HELP: &str = "\
Exit status:
  0   everything went well
  64  the command line is wrong
  65  the data is wrong, or what was asked for is not there
  69  a service cannot be reached or does not work
  70  the program has a fault: please report it
  74  a file or the database cannot be read or written
  75  try again later: something else is in the way, for example another daemon
  77  the workspace refuses the key, or this user may not do it
  78  the configuration is wrong

Environment:
  SHOPMIRROR_API_KEY     the key of the workspace, if no file of a key is named
  CREDENTIALS_DIRECTORY  where systemd keeps the credential api-key
  SHOPMIRROR_LOG         what is logged: error, warn, info, debug or trace, also
                         for single modules
  SHOPMIRROR_LOG_FORMAT  json writes each line of the log as a JSON object
  NO_COLOR               if set, no colours are printed";

/// Mirrors a repair shop's workspace into SQLite and forwards every new and changed record.
#[derive(Debug, Parser)]
#[command(name = "shopmirror", version = VERSION, max_term_width = 80, after_long_help = AFTER_HELP)]
struct Cli {
    /// The configuration [default: ./shopmirror.toml, else /etc/shopmirror/shopmirror.toml]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    #[command(flatten)]
    out: Output,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Ask for the address and the key, try them, and write the first configuration
    Init(init::Args),
    /// Test the configuration, the key, the address and the sinks
    Check(check::Args),
    /// Run everything on this machine for a trial: sandbox, daemon, status page and a file sink
    #[cfg(feature = "sandbox")]
    Demo(demo::Args),
    /// Run the sandbox only: an imitation of the workspace API
    #[cfg(feature = "sandbox")]
    Sandbox(sandbox::Args),
    /// Run the daemon: poll, store, deliver
    Run,
    /// Poll every route once, deliver, and exit; for cron and CI
    Once,
    /// Let the daemon read its configuration and key again; fails if the daemon refuses them
    Reload,
    /// Show health, routes, budget and sinks, or how often a route is polled and why
    Status(status::Args),
    /// Find records of the mirror by words, ids or phone numbers; costs no request
    Find(find::Args),
    /// List the records of a route, or show one with its history
    Records(records::Args),
    /// List changes, the latest last
    Log(log::Args),
    /// Answer a report about the shop, or list the reports
    Report(report::Args),
    /// List the intervals in which records may have been missed, or accept them
    Gaps(gaps::Args),
    /// List the sinks; test, release, rename or forget one, or send its changes again
    Sinks(sinks::Args),
    /// Let the daemon search the workspace for customers by name, e-mail or number; costs one
    /// request
    Search(search::Args),
    /// Let the daemon search for customers that are older than the newest 100, and store them
    Backfill(backfill::Args),
    /// Copy the store into one file and check the copy, with or without a daemon
    Backup(backup::Args),
    /// Replace the store by a backup, of a file or from off-site storage, or begin with an empty one
    /// after it was lost; refused while a daemon runs
    Restore(restore::Args),
    /// Store older records of a route from a file that you have: CSV, XLSX or NDJSON
    Import(import::Args),
    /// Check that the file, the log, the mirror and each sink's counts agree; exits with 65 if not
    Verify(verify::Args),
    /// Remove the data of records from the mirror and the log, for example for a privacy request
    Forget(forget::Args),
    /// Print a script that completes commands, routes and options in a shell
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
    /// Print the manual page of the program or of a command
    Man {
        /// The command, for example `man run` or `man sinks replay`
        command: Vec<String>,
    },
}

/// Parses the name of a route.
fn route() -> impl TypedValueParser<Value = Route> {
    PossibleValuesParser::new(Route::ALL.map(Route::as_str)).try_map(|name| name.parse::<Route>())
}

/// Parses a kind of change.
fn kind() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.map(|kind| kind.as_str()))
        .try_map(|name| name.parse::<Kind>())
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    completions::complete();
    let matches = examples::in_help(Cli::command()).try_get_matches();
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            // If even this cannot be printed, the exit code is all that is left.
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(USAGE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    let config = cli.config.clone();
    // A task that panicked ends the process; the lines before it are still written.
    let Ok(outcome) = std::panic::catch_unwind(|| execute(cli)) else {
        logging::flush();
        return ExitCode::from(SOFTWARE);
    };
    let code = match outcome {
        Ok(code) => code,
        Err(error) if exit::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let advice = exit::advice(&error, config.as_deref());
            // Waits for the lines before it as well.
            logging::log_final_error(&format!("shopmirror: {error:#}{advice}"));
            return ExitCode::from(code_of(&error));
        }
    };
    logging::flush();
    code
}

fn execute(cli: Cli) -> anyhow::Result<ExitCode> {
    let Cli {
        config: place,
        out,
        command,
    } = cli;
    match command {
        Command::Init(args) => init::run(place, &args),
        Command::Check(args) => check::run(&config_path(place)?, &args, out),
        #[cfg(feature = "sandbox")]
        Command::Demo(args) => demo::run(&args),
        #[cfg(feature = "sandbox")]
        Command::Sandbox(args) => sandbox::run(&args),
        Command::Run => run::run(&config_path(place)?),
        Command::Once => once::run(&config_path(place)?, out),
        Command::Reload => reload::run(&config_path(place)?),
        Command::Status(args) => status::run(place, &args, out),
        Command::Find(args) => find::run(&load_for_reading(&config_path(place)?)?, &args, out),
        Command::Records(args) => {
            records::run(&load_for_reading(&config_path(place)?)?, &args, out)
        }
        Command::Log(args) => log::run(&load_for_reading(&config_path(place)?)?, &args, out),
        Command::Report(args) => report::run(&load_for_reading(&config_path(place)?)?, args, out),
        Command::Gaps(args) => gaps::run(&load_for_reading(&config_path(place)?)?, args, out),
        Command::Sinks(args) => sinks::run(&load(place)?, &args, out),
        Command::Search(args) => search::run(&load(place)?, &args, out),
        Command::Backfill(args) => backfill::run(&load(place)?, &args, out),
        Command::Backup(args) => backup::run(&load(place)?, args, out),
        Command::Restore(args) => restore::run(place, args, out),
        Command::Import(args) => import::run(&load(place)?, &args, out),
        Command::Verify(args) => verify::run(&load(place)?, &args, out),
        Command::Forget(args) => forget::run(&load(place)?, &args, out),
        Command::Completions { shell } => completions::run(shell),
        Command::Man { command } => completions::man(&command),
    }
}

/// The path of the configuration: the option `--config`, or a usual place.
fn config_path(option: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(path) = option {
        return Ok(path);
    }
    let mut unreadable = None;
    for place in PLACES {
        match Path::new(place).try_exists() {
            Ok(true) => return Ok(place.into()),
            Ok(false) => {}
            // The file may be there, but this user may not see it. Reading it reports the error.
            Err(_) => unreadable = Some(place.into()),
        }
    }
    if let Some(path) = unreadable {
        return Ok(path);
    }
    refuse(
        exit::CONFIG,
        "there is no shopmirror.toml in this folder and no /etc/shopmirror/shopmirror.toml: make \
         one with `shopmirror init`, name the file with --config, or try `shopmirror demo`",
    )
}

fn load(option: Option<PathBuf>) -> anyhow::Result<Config> {
    read_config(&config_path(option)?)
}

/// As [`load`], for commands that only read the database. A user who may not read the configuration
/// gets the part of it that the database holds.
fn load_for_reading(path: &Path) -> anyhow::Result<Config> {
    let error = match read_config(path) {
        Ok(config) => return Ok(config),
        Err(error) => error,
    };
    let is_denied = matches!(
        error.downcast_ref(),
        Some(ConfigError::Read { why, .. }) if why.kind() == ErrorKind::PermissionDenied
    );
    if !is_denied {
        return Err(error);
    }
    let Some(text) = shared_config(path) else {
        return Err(error);
    };
    let config = Config::parse_file_text(&text, path)?;
    moment::use_zone(&config.workspace.time_zone);
    Ok(config)
}

/// The part of the configuration that the database holds for its readers.
fn shared_config(path: &Path) -> Option<String> {
    let reader = Reader::open(&Config::default_store_path(path)).ok()?;
    reader.value(MetaKey::SHARED_CONFIG).ok()?
}

/// Reads the configuration.
fn read_config(path: &Path) -> anyhow::Result<Config> {
    let config = Config::load(path)?;
    moment::use_zone(&config.workspace.time_zone);
    Ok(config)
}

/// How long a command may read the store. A longer read would keep the write-ahead log from being
/// emptied all that time.
const MAX_READ: Duration = Duration::from_secs(300);

/// Opens the store for a command whose reads have a time limit.
fn reader(config: &Config) -> anyhow::Result<Reader> {
    let mut reader = Reader::open(&config.store.path)?;
    reader.limit_time(MAX_READ)?;
    Ok(reader)
}

/// Brings the search index up to date at the end of a command that changed the store without a
/// daemon. A failure does not fail the command.
fn index_log(store: &Path) {
    if let Err(error) = store::index_log(store) {
        output::print_note(&format!(
            "`shopmirror find` may miss records, because the search index was not brought up to \
             date: {:#}",
            anyhow::Error::from(error)
        ));
    }
}

/// Threads for the store's connections, and one for each name lookup and each file on a disk that
/// hangs. The unit's `TasksMax` must allow these and the programs of command sinks.
const MAX_BLOCKING_THREADS: usize = 100;

/// How long such a thread waits for work before it ends: longer than polls are usually apart, because
/// a new thread costs as much as a part of a poll.
const KEEP_THREAD: Duration = Duration::from_secs(60);

/// Threads that tasks run on. With two, a destination that keeps one of them busy delays no poll.
const WORKER_THREADS: usize = 2;

/// The runtime of the daemon and of each command.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .enable_all()
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .thread_keep_alive(KEEP_THREAD)
        .build()?)
}
