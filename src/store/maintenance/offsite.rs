//! The off-site backups of one store in a bucket: what they are called, how one is sent, which are
//! removed.
//!
//! An object counts as ours only if its whole name is one that this module makes; no other object
//! of the bucket is touched. The archive is written to a file beside the backups before it is sent,
//! so that a cut line costs one part of it and no more, also after a restart.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::archive::{self, ArchiveError, ArchiveFiles};
use super::backup;
use super::backup_folder::{self, BackupFile, BackupFolder, DatedBackup};
use crate::config::{Encryption, OffsiteSettings, Proxy};
use crate::net::s3::{S3Access, S3BuildError, S3Client, S3Error, Upload};
use crate::store::error::StoreError;
use crate::text::hex;

/// How the name of an object ends.
const SUFFIX: &str = ".tar.gz.age";
/// Bytes of the digest of a store's identity in the name of an object.
const STORE_BYTES: usize = 4;

/// The off-site backups of one store.
#[derive(Clone)]
pub struct OffsiteBackups {
    client: S3Client,
    prefix: String,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsiteBackup {
    /// The whole name of the object.
    pub object: String,
    /// When the backup in it was begun, to the second.
    pub at: Timestamp,
    /// A digest that tells the stores apart.
    store: String,
}

/// Why a backup is not off-site.
#[derive(Debug, thiserror::Error)]
pub enum OffsiteError {
    /// The storage failed or refused.
    #[error(transparent)]
    Storage(#[from] S3Error),
    /// The archive could not be made.
    #[error("could not make the archive")]
    Archive(#[from] ArchiveError),
    /// The archive could not be written beside the backups.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file beside the backups could not be written or read.
    #[error("could not prepare the archive in the folder of backups")]
    Prepare(#[from] io::Error),
    /// The backup in the folder cannot be read.
    #[error("{} cannot be read as a backup", .0.display())]
    Unreadable(PathBuf),
}

/// The archive that is being sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Pending {
    object: String,
    bytes: u64,
    /// The upload of it, once it has begun.
    upload: Option<String>,
    /// What each part that was sent was answered with.
    sent: Vec<String>,
    /// The public key for which it is encrypted; `None` for a passphrase.
    recipient: Option<String>,
}

impl OffsiteBackup {
    /// Whether its time lies in the future, so that it does not say when the backup was made.
    #[must_use]
    pub fn is_from_future(&self, now: Timestamp) -> bool {
        backup_folder::is_from_future(self.at, now)
    }
}

impl OffsiteBackups {
    /// Those whose names begin with `prefix`.
    #[must_use]
    pub fn new(client: S3Client, prefix: &str) -> Self {
        Self {
            client,
            prefix: prefix.trim_matches('/').to_owned(),
        }
    }

    /// Those of the configuration; sends nothing yet.
    ///
    /// # Errors
    /// [`S3BuildError`]
    pub fn open(settings: &OffsiteSettings) -> Result<Self, S3BuildError> {
        let (id, secret) = &settings.access_key;
        let client = S3Client::build(&S3Access {
            endpoint: settings.endpoint.as_ref(),
            region: &settings.region,
            bucket: &settings.bucket,
            key: (id, secret.expose_secret()),
            ca_file: settings.ca_file.as_deref(),
            proxy: settings.proxy.as_ref().map(Proxy::address),
        })?;
        Ok(Self::new(client, &settings.prefix))
    }

    /// All of them, newest first.
    ///
    /// # Errors
    /// [`OffsiteError::Storage`]
    pub async fn list(&self) -> Result<Vec<OffsiteBackup>, OffsiteError> {
        let mut backups = Vec::new();
        for name in self.client.list(&format!("{}/", self.prefix)).await? {
            if let Some(backup) = parse(&self.prefix, &name) {
                backups.push(backup);
            }
        }
        backups.sort_by_key(|backup| std::cmp::Reverse(backup.at));
        Ok(backups)
    }

    /// Whether a name is that of one backup, and no prefix.
    #[must_use]
    pub fn is_one(name: &str) -> bool {
        match name.rsplit_once('/') {
            Some((prefix, _)) => parse(prefix, name).is_some(),
            None => false,
        }
    }

    /// What the object of a backup in the folder is called.
    ///
    /// # Errors
    /// [`OffsiteError::Unreadable`]
    pub fn object_of(
        &self,
        folder: &BackupFolder,
        backup: &BackupFile,
    ) -> Result<String, OffsiteError> {
        let Some(identity) = backup_folder::identity_of(&backup.path) else {
            return Err(OffsiteError::Unreadable(backup.path.clone()));
        };
        let store = hex(&Sha256::digest(identity)[..STORE_BYTES]);
        let stamp = backup_folder::name_stamp(backup.at);
        let stem = folder.stem();
        Ok(format!("{}/{stem}-{stamp}.{store}{SUFFIX}", self.prefix))
    }

    /// Drops the archive that an earlier process was sending, unless it is encrypted for the same
    /// public key. Of a passphrase nothing is kept that could be compared.
    ///
    /// # Errors
    /// [`OffsiteError::Prepare`]
    pub async fn drop_other_archive(
        &self,
        folder: &BackupFolder,
        encryption: &Encryption,
    ) -> Result<(), OffsiteError> {
        let Some(pending) = stored(folder) else {
            return Ok(());
        };
        if pending.recipient.is_some() && pending.recipient == recipient_of(encryption) {
            return Ok(());
        }
        self.give_up(&pending).await;
        remove_pending(folder)?;
        Ok(())
    }

    /// Whether an object is still being sent: it was not checked, although it may be in the list.
    #[must_use]
    pub fn is_unfinished(&self, folder: &BackupFolder, object: &str) -> bool {
        stored(folder).is_some_and(|pending| pending.object == object)
    }

    /// Sends a backup under the name `object`, with what was sent of it before; returns how many
    /// bytes the object has. Dropped or failed, it goes on with the next call.
    ///
    /// # Errors
    /// [`OffsiteError`]
    pub async fn send(
        &self,
        folder: &BackupFolder,
        object: &str,
        files: ArchiveFiles,
        encryption: Encryption,
    ) -> Result<u64, OffsiteError> {
        let mut pending = match stored(folder) {
            Some(pending) if pending.object == object => pending,
            before => {
                if let Some(before) = before {
                    self.give_up(&before).await;
                }
                let folder = folder.clone();
                let object = object.to_owned();
                let making = tokio::task::spawn_blocking(move || {
                    prepare(&folder, object, &files, &encryption)
                });
                making.await.map_err(io::Error::other)??
            }
        };
        let sent = self.send_pending(folder, &mut pending).await;
        if let Err(OffsiteError::Storage(error)) = &sent
            && error.ends_upload()
        {
            // The next call begins again, with the archive that is there.
            self.give_up(&pending).await;
            pending.upload = None;
            pending.sent.clear();
            store(folder, &pending)?;
        }
        sent?;
        remove_pending(folder)?;
        Ok(pending.bytes)
    }

    async fn send_pending(
        &self,
        folder: &BackupFolder,
        pending: &mut Pending,
    ) -> Result<(), OffsiteError> {
        let file = File::open(folder.archive())?;
        let object = pending.object.clone();
        let upload = Upload::new(&self.client, &object, file, pending.bytes);
        let id = match &pending.upload {
            Some(id) => id.clone(),
            None => upload.begin().await?,
        };
        pending.upload = Some(id.clone());
        store(folder, pending)?;
        let next = u16::try_from(pending.sent.len() + 1).unwrap_or(u16::MAX);
        for number in next..=upload.parts() {
            pending.sent.push(upload.send(&id, number).await?);
            store(folder, pending)?;
        }
        upload.finish(&id, &pending.sent).await?;
        Ok(())
    }

    /// Has the service forget an upload that will not go on.
    async fn give_up(&self, pending: &Pending) {
        if let Some(id) = &pending.upload {
            Upload::give_up(&self.client, &pending.object, id).await;
        }
    }

    /// Removes all but the newest `keep` and the newest one of each store, as
    /// [`BackupFolder::prune`] does.
    ///
    /// # Errors
    /// [`OffsiteError::Storage`]; newer ones stay in any case.
    pub async fn prune(&self, keep: usize, now: Timestamp) -> Result<(), OffsiteError> {
        let mut backups = Vec::new();
        for backup in self.list().await? {
            backups.push(DatedBackup {
                place: backup.object,
                at: backup.at,
                store: Some(backup.store),
            });
        }
        for object in backup_folder::surplus(backups, keep, now) {
            self.client.remove(&object).await?;
        }
        Ok(())
    }
}

/// The backup of a name that this module makes; `None` for every other name.
fn parse(prefix: &str, object: &str) -> Option<OffsiteBackup> {
    let name = object.strip_prefix(prefix)?.strip_prefix('/')?;
    let (name, store) = name.strip_suffix(SUFFIX)?.rsplit_once('.')?;
    let (_, stamp) = name.rsplit_once('-')?;
    let is_digest =
        store.len() == 2 * STORE_BYTES && store.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_digest || name.contains('/') {
        return None;
    }
    Some(OffsiteBackup {
        object: object.to_owned(),
        at: backup_folder::stamp_of(stamp)?,
        store: store.to_owned(),
    })
}

/// Makes the archive that is to be sent.
fn prepare(
    folder: &BackupFolder,
    object: String,
    files: &ArchiveFiles,
    encryption: &Encryption,
) -> Result<Pending, OffsiteError> {
    folder.prepare_for_archive()?;
    remove_pending(folder)?;
    let archive = folder.archive();
    let partial = backup::partial(&archive)?;
    // Packed and encrypted it is never larger.
    let largest = fs::metadata(&files.database)?.len();
    backup::refuse_without_room(&partial, largest)?;
    let bytes = archive::write(partial.as_file(), files, encryption)?;
    backup::publish(partial, &archive, true)?;
    let pending = Pending {
        object,
        bytes,
        upload: None,
        sent: Vec::new(),
        recipient: recipient_of(encryption),
    };
    store(folder, &pending)?;
    Ok(pending)
}

fn recipient_of(encryption: &Encryption) -> Option<String> {
    match encryption {
        Encryption::Recipient(key) => Some(key.clone()),
        Encryption::Passphrase(_) => None,
    }
}

/// What is being sent from this folder; `None` also if its archive is not as it was noted.
fn stored(folder: &BackupFolder) -> Option<Pending> {
    let text = fs::read(folder.archive_note()).ok()?;
    let pending: Pending = serde_json::from_slice(&text).ok()?;
    let length = fs::metadata(folder.archive()).ok()?.len();
    if length == pending.bytes {
        Some(pending)
    } else {
        None
    }
}

fn store(folder: &BackupFolder, pending: &Pending) -> io::Result<()> {
    let text = serde_json::to_vec(pending)?;
    fs::write(folder.archive_note(), text)
}

fn remove_pending(folder: &BackupFolder) -> io::Result<()> {
    for path in [folder.archive_note(), folder.archive()] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
