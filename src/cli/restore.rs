//! `restore`: puts a backup in the place of the store and keeps the store that was there, or puts it
//! into a folder beside, to look at it. The backup is a file, or comes from off-site storage.

#[cfg(feature = "s3")]
mod offsite;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::ValueHint;

use super::backup::{copy, described};
use super::exit::{self, refuse};
use super::output::{self, Output};
use super::{config_path, read_config};
use crate::config::Config;
use crate::files::owner;
use crate::store::{self, Restored, StorePlace};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The backup, as `shopmirror backup` or the daemon wrote it
    #[arg(value_hint = ValueHint::FilePath, required_unless_present_any = ["new_store", "from"])]
    file: Option<PathBuf>,
    /// Make an empty store where one was lost; needs no key
    #[arg(long, conflicts_with_all = ["file", "from", "to"])]
    new_store: bool,
    /// Put the backup into this folder to look at it; the store in use stays
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    to: Option<PathBuf>,
    #[command(flatten)]
    offsite: OffsiteArgs,
}

/// Where an off-site backup is, and what opens it.
#[derive(Debug, clap::Args)]
struct OffsiteArgs {
    /// Restore an off-site backup with its configuration: s3://BUCKET/PREFIX for the newest, or the
    /// whole name of an object
    #[arg(long, value_name = "URL", conflicts_with = "file", requires = "login")]
    from: Option<String>,
    /// The address of the storage; without it, that of AWS
    #[arg(long, value_name = "URL", requires = "from")]
    endpoint: Option<String>,
    /// The region of the storage
    #[arg(long, default_value = "us-east-1", requires = "from")]
    region: String,
    /// A file with the certificate authorities of the storage
    #[arg(long, value_name = "FILE", requires = "from", value_hint = ValueHint::FilePath)]
    ca_file: Option<PathBuf>,
    /// The file with the login of the storage: the id of the access key, and its secret, in two
    /// lines
    #[arg(long, value_name = "FILE", requires = "from", value_hint = ValueHint::FilePath)]
    login: Option<PathBuf>,
    /// The file with the secret age key, as `init --new-age-key` prints it
    #[arg(long, value_name = "FILE", requires = "from", value_hint = ValueHint::FilePath)]
    age_key: Option<PathBuf>,
    /// The file with the passphrase, if the backups were encrypted with one
    #[arg(
        long,
        value_name = "FILE",
        requires = "from",
        conflicts_with = "age_key",
        value_hint = ValueHint::FilePath
    )]
    passphrase_file: Option<PathBuf>,
}

/// Restores a backup and prints what to do next.
pub(super) fn run(place: Option<PathBuf>, args: Args, out: Output) -> anyhow::Result<ExitCode> {
    if args.offsite.from.is_some() {
        #[cfg(feature = "s3")]
        return offsite::run(place, &args.offsite, args.to.as_deref(), out);
        #[cfg(not(feature = "s3"))]
        return refuse(
            exit::USAGE,
            "this program was built without off-site backups: use the packaged program, or build \
             it with --all-features",
        );
    }
    let config = read_config(&config_path(place)?)?;
    let Some(file) = args.file else {
        return begin_again(&config, out);
    };
    match args.to {
        Some(folder) => beside(&config.store.path, &config.for_readers, &file, &folder, out),
        None => in_place(&config.store.path, &file, out),
    }
}

/// Makes an empty store where one was lost.
fn begin_again(config: &Config, out: Output) -> anyhow::Result<ExitCode> {
    let place = StorePlace::new(&config.store, &config.backup);
    store::begin_again(&place, jiff::Timestamp::now())?;
    let path = place.path.display();
    let text = format!(
        "{path} is an empty store: start the daemon; the first page of each list is its baseline, \
         and sinks begin as new ones. Backups of the lost store stay until you delete them\n"
    );
    out.done(&serde_json::json!({ "new_store": place.path }), &text)
}

/// Puts a backup into a folder, with what commands need that read it. Records that were forgotten in
/// the store since are forgotten there too.
fn beside(
    store: &Path,
    for_readers: &str,
    file: &Path,
    folder: &Path,
    out: Output,
) -> anyhow::Result<ExitCode> {
    let store = store.to_owned();
    let from = file.to_owned();
    let target = folder.join("mirror.db");
    let database = target.clone();
    let problem = format!("could not put {} into {}", file.display(), folder.display());
    let readers = folder.join("shopmirror.toml");
    if readers.exists() {
        let text = format!(
            "{} is there already: name a new folder with --to",
            readers.display()
        );
        return refuse(exit::USAGE, text);
    }
    let put = copy(move |control| store::restore_beside(&store, &from, &database, control));
    let facts = put.context(problem)?;
    write_new(&readers, for_readers.as_bytes())
        .with_context(|| format!("could not write {}", readers.display()))?;
    let text = format!(
        "{} holds {}\nlook at it with `shopmirror --config {} report open-repairs`, or open it with \
         sqlite3; delete the folder when you no longer need it\n",
        target.display(),
        described(&facts),
        readers.display()
    );
    out.done(&facts, &text)
}

/// Puts a backup in the place of the store.
fn in_place(store: &Path, file: &Path, out: Output) -> anyhow::Result<ExitCode> {
    let (restored, text) = replaced(store, file)?;
    out.done(&restored, &text)
}

/// Puts a backup in the place of the store; returns also what to tell about it.
fn replaced(store: &Path, file: &Path) -> anyhow::Result<(Restored, String)> {
    let path = store.to_owned();
    let from = file.to_owned();
    let now = jiff::Timestamp::now();
    let problem = format!("could not restore {}", file.display());
    let restored = copy(move |control| store::restore(&path, &from, now, control));
    let restored = restored.context(problem)?;
    super::index_log(store);
    let Restored {
        facts,
        kept,
        forgotten_again,
    } = &restored;
    let mut text = format!("{} now holds {}\n", store.display(), described(facts));
    if let Some(kept) = kept {
        text.push_str(&format!(
            "the replaced store is kept as {}; delete it when you no longer need it\n",
            kept.display()
        ));
    }
    match forgotten_again {
        Some(0) => {}
        Some(records) => {
            let records = output::count(*records, "record", "records");
            text.push_str(&format!(
                "{records} forgotten after the backup: forgotten again\n"
            ));
        }
        None => text.push_str(
            "no replaced store says which records were forgotten after the backup: \
             run `shopmirror forget` for them before you start the daemon\n",
        ),
    }
    text.push_str(
        "start the daemon: polling continues from the backup; a sink may get the changes since \
         the backup again, under the same event ids\n",
    );
    Ok((restored, text))
}

/// Writes a file that is not there, for the owner of its folder and its group.
fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o640)
        .open(path)?;
    owner::give_to_folder(&file, path);
    file.write_all(content)?;
    file.sync_all()
}
