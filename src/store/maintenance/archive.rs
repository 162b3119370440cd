//! The archive of an off-site backup: a database, the configuration and the shop's own reports, as
//! a `tar` that is packed with gzip and encrypted with age.
//!
//! `age -d -i KEY FILE | tar xz` reads it too. It is written and read as a stream: no more than a
//! few blocks are in memory. Files of keys, tokens and passwords are never part of it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use age::secrecy::SecretString;
use age::{DecryptError, Decryptor, Encryptor, IdentityFile};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use secrecy::ExposeSecret;

use crate::config::Encryption;

/// The database in the archive.
const DATABASE: &str = "mirror.db";
/// The configuration, which is written first: it says where the database goes.
const CONFIGURATION: &str = "shopmirror.toml";
/// The folder of the reports.
const REPORTS: &str = "reports/";
/// The work factor of a passphrase: to read or write the archive takes 32 MiB.
const WORK_FACTOR: u8 = 15;
/// The highest one that is accepted, as of an archive that another program encrypted.
const MOST_WORK: u8 = 20;
/// The most bytes of the configuration, and of a report.
const TEXT_MAX: u64 = 1024 * 1024;
/// The most reports.
const REPORTS_MAX: usize = 1_000;

/// What an archive is made of.
#[derive(Debug, Clone)]
pub struct ArchiveFiles {
    /// A backup of the store.
    pub database: PathBuf,
    /// The configuration.
    pub configuration: PathBuf,
    /// The folder of the shop's own reports, if there is one.
    pub reports: Option<PathBuf>,
}

/// What opens an archive.
pub enum ArchiveKey {
    /// The text of a file of secret age keys.
    Age(SecretString),
    /// The passphrase.
    Passphrase(SecretString),
}

/// What an archive held beside the database.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ArchiveTexts {
    /// The configuration; `None` if there is none that can be read.
    pub configuration: Option<String>,
    /// The names and the contents of the reports, as they are in their files.
    pub reports: Vec<(String, Vec<u8>)>,
}

/// Why an archive cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A file cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The recipient is no public key.
    #[error("`age_recipient` is no public key of age")]
    Recipient,
    /// The file of the key holds no key.
    #[error("the file of the age key holds no secret key: it has a line with AGE-SECRET-KEY-1")]
    NoKey,
    /// The archive was encrypted for another key.
    #[error("this key or passphrase does not open the backup: give that of its configuration")]
    OtherKey,
    /// It was encrypted with a passphrase and a key was given, or the other way round.
    #[error("the backup was encrypted {0}")]
    OtherKind(&'static str),
    /// It is no archive, or damaged.
    #[error("it is no backup of shopmirror, or damaged: {0}")]
    Damaged(String),
}

/// Writes an archive and syncs it; returns its length. Blocks.
///
/// # Errors
/// [`ArchiveError`]
pub(super) fn write(
    target: &File,
    files: &ArchiveFiles,
    encryption: &Encryption,
) -> Result<u64, ArchiveError> {
    let encryptor = encryptor(encryption)?;
    let encrypted = encryptor.wrap_output(BufWriter::new(target))?;
    let packed = GzEncoder::new(encrypted, Compression::default());
    let mut tar = tar::Builder::new(packed);
    // Every program reads a file that is not sparse; the times and owners of this machine are not
    // those of the next.
    tar.sparse(false);
    tar.mode(tar::HeaderMode::Deterministic);
    refuse_long(&files.configuration)?;
    tar.append_path_with_name(&files.configuration, CONFIGURATION)?;
    if let Some(folder) = &files.reports {
        append_reports(&mut tar, folder)?;
    }
    tar.append_path_with_name(&files.database, DATABASE)?;
    let encrypted = tar.into_inner()?.finish()?;
    encrypted.finish()?.flush()?;
    target.sync_all()?;
    Ok(target.metadata()?.len())
}

fn append_reports(tar: &mut tar::Builder<impl Write>, folder: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if let Ok(name) = entry.file_name().into_string()
            && name.ends_with(".sql")
            && entry.path().is_file()
        {
            names.push(name);
        }
    }
    if names.len() > REPORTS_MAX {
        let text = format!("there are more than {REPORTS_MAX} reports: remove some");
        return Err(io::Error::other(text));
    }
    names.sort();
    for name in names {
        refuse_long(&folder.join(&name))?;
        tar.append_path_with_name(folder.join(&name), format!("{REPORTS}{name}"))?;
    }
    Ok(())
}

/// Refuses a text that could not be read back.
fn refuse_long(file: &Path) -> io::Result<()> {
    if file.metadata()?.len() > TEXT_MAX {
        let text = format!("{} has more than 1 MiB: make it shorter", file.display());
        return Err(io::Error::other(text));
    }
    Ok(())
}

fn encryptor(encryption: &Encryption) -> Result<Encryptor, ArchiveError> {
    let made = match encryption {
        Encryption::Recipient(text) => {
            let recipient: age::x25519::Recipient =
                text.parse().map_err(|_| ArchiveError::Recipient)?;
            Encryptor::with_recipients(std::iter::once(&recipient as _))
        }
        Encryption::Passphrase(passphrase) => {
            let passphrase = SecretString::from(passphrase.expose_secret().to_owned());
            let mut recipient = age::scrypt::Recipient::new(passphrase);
            recipient.set_work_factor(WORK_FACTOR);
            Encryptor::with_recipients(std::iter::once(&recipient as _))
        }
    };
    made.map_err(|error| ArchiveError::Io(io::Error::other(error)))
}

/// Reads an archive to its end: its texts, and the database into the file that `place` opens, which
/// it gets the configuration for. Blocks.
///
/// # Errors
/// [`ArchiveError`]; what was written so far is then not to be used.
pub fn read(
    archive: impl Read,
    key: &ArchiveKey,
    place: impl FnOnce(&ArchiveTexts) -> io::Result<File>,
) -> Result<ArchiveTexts, ArchiveError> {
    let decryptor = Decryptor::new_buffered(BufReader::new(archive))
        .map_err(|error| ArchiveError::Damaged(error.to_string()))?;
    let decrypted = decrypted(decryptor, key)?;
    let mut tar = tar::Archive::new(GzDecoder::new(decrypted));
    let mut texts = ArchiveTexts::default();
    let mut place = Some(place);
    for entry in tar.entries()? {
        let mut entry = entry.map_err(damaged)?;
        let name = entry.path()?.to_string_lossy().into_owned();
        if name == CONFIGURATION {
            // One that is no text must not hide the database behind it.
            texts.configuration = String::from_utf8(content_of(&mut entry)?).ok();
        } else if let Some(report) = name.strip_prefix(REPORTS) {
            if texts.reports.len() >= REPORTS_MAX || report.contains('/') {
                return Err(ArchiveError::Damaged("its reports cannot be".to_owned()));
            }
            texts
                .reports
                .push((report.to_owned(), content_of(&mut entry)?));
        } else if name == DATABASE
            && let Some(place) = place.take()
        {
            let mut file = place(&texts)?;
            io::copy(&mut entry, &mut file).map_err(damaged)?;
            file.sync_all()?;
        }
    }
    // The end of the stream is what proves that it is whole.
    io::copy(&mut tar.into_inner(), &mut io::sink()).map_err(damaged)?;
    if place.is_some() {
        return Err(ArchiveError::Damaged("it holds no database".to_owned()));
    }
    Ok(texts)
}

fn damaged(error: io::Error) -> ArchiveError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::PermissionDenied => ArchiveError::Io(error),
        _ => ArchiveError::Damaged(error.to_string()),
    }
}

fn content_of(entry: &mut impl Read) -> Result<Vec<u8>, ArchiveError> {
    let mut content = Vec::new();
    let read = entry.take(TEXT_MAX).read_to_end(&mut content);
    read.map_err(damaged)?;
    Ok(content)
}

fn decrypted<R: BufRead>(
    decryptor: Decryptor<R>,
    key: &ArchiveKey,
) -> Result<impl Read, ArchiveError> {
    let opened = match (key, decryptor.is_scrypt()) {
        (ArchiveKey::Age(text), false) => {
            let file = IdentityFile::from_buffer(text.expose_secret().as_bytes())
                .map_err(|_| ArchiveError::NoKey)?;
            let identities = file.into_identities().map_err(|_| ArchiveError::NoKey)?;
            if identities.is_empty() {
                return Err(ArchiveError::NoKey);
            }
            decryptor.decrypt(identities.iter().map(|identity| identity.as_ref() as _))
        }
        (ArchiveKey::Passphrase(passphrase), true) => {
            let mut identity = age::scrypt::Identity::new(passphrase.clone());
            identity.set_max_work_factor(MOST_WORK);
            decryptor.decrypt(std::iter::once(&identity as _))
        }
        (ArchiveKey::Age(_), true) => {
            let text = "with a passphrase: give --passphrase-file FILE";
            return Err(ArchiveError::OtherKind(text));
        }
        (ArchiveKey::Passphrase(_), false) => {
            return Err(ArchiveError::OtherKind(
                "for an age key: give --age-key FILE",
            ));
        }
    };
    opened.map_err(|error| match error {
        DecryptError::NoMatchingKeys
        | DecryptError::DecryptionFailed
        | DecryptError::KeyDecryptionFailed => ArchiveError::OtherKey,
        error => ArchiveError::Damaged(error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use age::x25519::Identity;
    use tempfile::TempDir;

    use super::*;

    /// A report that is no UTF-8: it must not cost the database.
    const LATIN_1: &[u8] = b"select 1 -- f\xe4llig";

    fn files(dir: &TempDir) -> ArchiveFiles {
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("reports")).unwrap();
        fs::write(path("mirror.db"), "a database ".repeat(10_000)).unwrap();
        fs::write(path("shop.toml"), "[workspace]").unwrap();
        fs::write(path("reports/late.sql"), LATIN_1).unwrap();
        fs::write(path("reports/notes.txt"), "no report").unwrap();
        ArchiveFiles {
            database: path("mirror.db"),
            configuration: path("shop.toml"),
            reports: Some(path("reports")),
        }
    }

    fn written(dir: &TempDir, files: &ArchiveFiles, encryption: &Encryption) -> Vec<u8> {
        let path = dir.path().join("archive");
        let length = write(&File::create(&path).unwrap(), files, encryption).unwrap();
        let bytes = fs::read(path).unwrap();
        assert_eq!(bytes.len() as u64, length);
        bytes
    }

    fn read_back(
        dir: &TempDir,
        bytes: &[u8],
        key: &ArchiveKey,
    ) -> Result<(ArchiveTexts, Vec<u8>), ArchiveError> {
        let path = dir.path().join("back.db");
        let texts = read(bytes, key, |_| File::create(&path))?;
        Ok((texts, fs::read(path).unwrap()))
    }

    #[test]
    fn an_archive_gives_back_what_went_in_to_its_own_key_only() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(&dir);
        let key = Identity::generate();
        let own = ArchiveKey::Age(key.to_string());
        let other = ArchiveKey::Age(Identity::generate().to_string());
        let phrase = ArchiveKey::Passphrase("correct horse battery".to_owned().into());
        let wrong = ArchiveKey::Passphrase("another horse battery".to_owned().into());
        let for_key = Encryption::Recipient(key.to_public().to_string());
        let for_phrase = Encryption::Passphrase("correct horse battery".into());
        for (encryption, opens, refused) in [
            (for_key, &own, [&other, &phrase]),
            (for_phrase, &phrase, [&wrong, &own]),
        ] {
            let bytes = written(&dir, &files, &encryption);
            assert!(!bytes.windows(10).any(|part| part == b"a database"));
            let (texts, database) = read_back(&dir, &bytes, opens).unwrap();
            assert_eq!(texts.configuration.as_deref(), Some("[workspace]"));
            let report = ("late.sql".to_owned(), LATIN_1.to_vec());
            assert_eq!(texts.reports, [report]);
            assert_eq!(database, fs::read(&files.database).unwrap());
            for key in refused {
                let error = read_back(&dir, &bytes, key).unwrap_err();
                let is_told = matches!(error, ArchiveError::OtherKey | ArchiveError::OtherKind(_));
                assert!(is_told, "{error}");
            }
        }
    }

    #[test]
    fn an_archive_that_was_cut_or_altered_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(&dir);
        let key = Identity::generate();
        let encryption = Encryption::Recipient(key.to_public().to_string());
        let bytes = written(&dir, &files, &encryption);
        let key = ArchiveKey::Age(key.to_string());
        for length in [0, 10, 150, bytes.len() / 2, bytes.len() - 1] {
            let read = read_back(&dir, &bytes[..length], &key);
            assert!(matches!(read, Err(ArchiveError::Damaged(_))), "{length}");
        }
        let mut altered = bytes;
        *altered.last_mut().unwrap() ^= 1;
        let read = read_back(&dir, &altered, &key);
        assert!(matches!(read, Err(ArchiveError::Damaged(_))));
    }
}
