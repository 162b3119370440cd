//! `restore --from`: fetches an off-site backup, and puts its database, its configuration and its
//! reports back. What is there already of the configuration and the reports stays.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use indicatif::HumanBytes;
use serde::Serialize;
use tempfile::NamedTempFile;
use tokio::runtime::Runtime;

use super::{OffsiteArgs, beside, replaced, write_new};
use crate::cli::exit::{self, refuse};
use crate::cli::output::{self, Output};
use crate::cli::{PLACES, runtime};
use crate::config::{Config, missing_files, service_address};
use crate::files::{owner, read};
use crate::net::s3::{ObjectReader, S3Access, S3Client};
use crate::store::{
    ArchiveError, ArchiveKey, ArchiveTexts, OffsiteBackups, Restored, read_archive,
};

/// A file with a key, a login or a passphrase is no longer than this.
const SECRET_MAX: u64 = 64 * 1024;
/// Why a backup cannot be put back by itself.
const NO_CONFIGURATION: &str = "it holds no configuration that can be read: write one, name it with \
    --config FILE, and run the same command again";
/// The fetched database, until it is in its place.
const FETCHED: &str = "fetched.db";

/// What was put back.
#[derive(Serialize)]
struct PutBack {
    object: String,
    #[serde(flatten)]
    restored: Restored,
    configuration: PathBuf,
    /// The files that the configuration names and that are not there.
    to_write: Vec<PathBuf>,
}

/// What came from the storage.
struct Fetched {
    object: String,
    texts: ArchiveTexts,
    database: NamedTempFile,
}

/// Fetches the backup, puts it back, and prints what to do next.
pub(super) fn run(
    place: Option<PathBuf>,
    args: &OffsiteArgs,
    to: Option<&Path>,
    out: Output,
) -> anyhow::Result<ExitCode> {
    let config = place.unwrap_or_else(configuration_place);
    let (bucket, name) = address(args.from.as_deref().unwrap_or_default())?;
    let client = client(args, bucket)?;
    let key = key(args)?;
    let runtime = runtime()?;
    let object = runtime.block_on(object(&client, name))?;
    output::print_note(&format!("fetching {object} ..."));
    let beside_in = to.map(|folder| folder.join("mirror.db"));
    let fetched = fetch(&runtime, client, object, &key, &config, beside_in)?;
    drop(runtime);
    if let Some(folder) = to {
        let readers = fetched
            .texts
            .configuration
            .as_deref()
            .map(Config::readable_part);
        let store = existing_store(&config).unwrap_or_else(|| Config::default_store_path(&config));
        return beside(
            &store,
            &readers.unwrap_or_default(),
            fetched.database.path(),
            folder,
            out,
        );
    }
    put_back(fetched, &config, out)
}

/// The place of the configuration if `--config` does not name one: where there is one, or where the
/// package has it.
fn configuration_place() -> PathBuf {
    let there = PLACES.into_iter().find(|place| Path::new(place).exists());
    there.unwrap_or(PLACES[1]).into()
}

/// The bucket and the rest of `s3://BUCKET/PREFIX`.
fn address(text: &str) -> anyhow::Result<(&str, &str)> {
    let parts = text
        .strip_prefix("s3://")
        .and_then(|rest| rest.split_once('/'));
    match parts {
        Some((bucket, name)) if !bucket.is_empty() && !name.is_empty() => Ok((bucket, name)),
        _ => Err(exit::error(
            exit::USAGE,
            "--from must be s3://BUCKET/PREFIX, as `bucket` and `prefix` of [backup.s3] have it",
        )),
    }
}

fn secret_text(path: &Path, what: &str) -> anyhow::Result<String> {
    read::text(path, SECRET_MAX).with_context(|| format!("could not read the file of {what}"))
}

fn client(args: &OffsiteArgs, bucket: &str) -> anyhow::Result<S3Client> {
    let endpoint = match &args.endpoint {
        Some(text) => match service_address(text) {
            Ok(url) => Some(url),
            Err(problem) => return Err(exit::error(exit::USAGE, format!("--endpoint {problem}"))),
        },
        None => None,
    };
    let login = args.login.as_deref().unwrap_or(Path::new(""));
    let login = secret_text(login, "the login")?;
    let Some((id, secret)) = login.trim().split_once('\n') else {
        return Err(exit::error(
            exit::USAGE,
            "--login must name a file with two lines: the id of the access key, and its secret",
        ));
    };
    let client = S3Client::build(&S3Access {
        endpoint: endpoint.as_ref(),
        region: &args.region,
        bucket,
        key: (id.trim(), secret.trim()),
        ca_file: args.ca_file.as_deref(),
        proxy: None,
    });
    client.map_err(|error| exit::error(exit::USAGE, error.to_string()))
}

fn key(args: &OffsiteArgs) -> anyhow::Result<ArchiveKey> {
    match (&args.age_key, &args.passphrase_file) {
        (Some(path), _) => Ok(ArchiveKey::Age(secret_text(path, "the age key")?.into())),
        (None, Some(path)) => {
            let text = secret_text(path, "the passphrase")?;
            Ok(ArchiveKey::Passphrase(text.trim().to_owned().into()))
        }
        (None, None) => Err(exit::error(
            exit::USAGE,
            "give what opens the backup: --age-key FILE, or --passphrase-file FILE",
        )),
    }
}

/// The object to fetch: the one that is named, or the newest whose name begins so.
async fn object(client: &S3Client, name: &str) -> anyhow::Result<String> {
    if OffsiteBackups::is_one(name) {
        return Ok(name.to_owned());
    }
    let place = OffsiteBackups::new(client.clone(), name);
    let now = jiff::Timestamp::now();
    let backups = match place.list().await {
        Ok(backups) => backups,
        Err(error) => return Err(exit::error(exit::UNAVAILABLE, error.to_string())),
    };
    let newest = backups
        .into_iter()
        .find(|backup| !backup.is_from_future(now));
    match newest {
        Some(backup) => Ok(backup.object),
        None => refuse(
            exit::DATA,
            format!(
                "there is no backup under {name} in the bucket {}: give --from as `bucket` and \
                 `prefix` of [backup.s3] have it",
                client.bucket()
            ),
        ),
    }
}

/// Fetches the object, and writes its database beside the place where it goes.
fn fetch(
    runtime: &Runtime,
    client: S3Client,
    object: String,
    key: &ArchiveKey,
    config: &Path,
    database: Option<PathBuf>,
) -> anyhow::Result<Fetched> {
    let reading = ObjectReader::open(client, &object, runtime.handle().clone());
    let reader = match runtime.block_on(reading) {
        Ok(reader) => reader,
        Err(error) => return Err(exit::error(exit::UNAVAILABLE, error.to_string())),
    };
    output::print_note(&format!("it has {}", HumanBytes(reader.length())));
    let mut partial = None;
    let read = read_archive(reader, key, |texts| {
        let path = match (database, existing_store(config), &texts.configuration) {
            (Some(path), _, _) | (None, Some(path), _) => path,
            (None, None, Some(text)) => Config::store_path_in(text, config),
            (None, None, None) => return Err(io::Error::other(NO_CONFIGURATION)),
        };
        let folder = owner::folder_of(&path);
        owner::create_folder(folder)?;
        let file = fetched_file(folder)?;
        let handle = file.reopen()?;
        partial = Some(file);
        Ok(handle)
    });
    let texts = match read {
        Ok(texts) => texts,
        Err(ArchiveError::Io(error)) => {
            return Err(error).with_context(|| format!("could not restore {object}"));
        }
        Err(error) => {
            return refuse(exit::DATA, format!("{object} cannot be restored: {error}"));
        }
    };
    let database = partial.context("the archive holds no database")?;
    Ok(Fetched {
        object,
        texts,
        database,
    })
}

/// A new file for the fetched database. It has one name, so that a later restore removes what a
/// killed one has left.
fn fetched_file(folder: &Path) -> io::Result<NamedTempFile> {
    match std::fs::remove_file(folder.join(FETCHED)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    tempfile::Builder::new()
        .prefix(FETCHED)
        .rand_bytes(0)
        .tempfile_in(folder)
}

/// Where the store of a configuration is that is there already.
fn existing_store(config: &Path) -> Option<PathBuf> {
    Config::named_store_path(config).ok()
}

fn put_back(fetched: Fetched, config: &Path, out: Output) -> anyhow::Result<ExitCode> {
    let Fetched {
        object,
        texts,
        database,
    } = fetched;
    let text = texts.configuration.unwrap_or_default();
    let kept = put_configuration(&text, config)?;
    let store = Config::named_store_path(config)?;
    let (restored, mut said) = replaced(&store, database.path())?;
    said += &kept;
    let reports = put_reports(&texts.reports, &text, config)?;
    if reports > 0 {
        let reports = output::count(reports, "report", "reports");
        said += &format!("{reports} of the shop put back\n");
    }
    let to_write = missing_files(&text, config);
    if !to_write.is_empty() {
        said += "before the start, write these files again, which no backup holds:\n";
        for path in &to_write {
            said += &format!("  {}\n", path.display());
        }
    }
    let put_back = PutBack {
        object,
        restored,
        configuration: config.to_owned(),
        to_write,
    };
    out.done(&put_back, &said)
}

/// Writes the configuration, unless there is one; returns what to tell.
fn put_configuration(text: &str, config: &Path) -> anyhow::Result<String> {
    let failed = || format!("could not write {}", config.display());
    let folder = owner::folder_of(config);
    owner::create_folder(folder).with_context(failed)?;
    match write_new(config, text.as_bytes()) {
        Ok(()) => Ok(format!(
            "{} is the configuration of the backup\n",
            config.display()
        )),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(format!(
            "{} was there and stays; the configuration of the backup was not written\n",
            config.display()
        )),
        Err(error) => Err(error).with_context(failed),
    }
}

/// Writes the reports that are not there; returns how many.
fn put_reports(
    reports: &[(String, Vec<u8>)],
    configuration: &str,
    config: &Path,
) -> anyhow::Result<usize> {
    let Some(folder) = Config::reports_folder_in(configuration, config) else {
        return Ok(0);
    };
    owner::create_folder(&folder)
        .with_context(|| format!("could not make {}", folder.display()))?;
    let mut written = 0;
    for (name, content) in reports {
        let path = folder.join(name);
        match write_new(&path, content) {
            Ok(()) => written += 1,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| format!("could not write {}", path.display()));
            }
        }
    }
    Ok(written)
}
