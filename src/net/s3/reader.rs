//! Reads an object as a stream, a piece at a time, so that a cut line costs one piece and the
//! memory holds no more.

use std::io::{self, Read};

use tokio::runtime::Handle;

use super::{S3Client, S3Error};

/// Bytes of a piece.
const PIECE: u64 = 4 * 1024 * 1024;

/// An object that is read from its beginning to its end. To read it blocks: never in a task.
pub struct ObjectReader {
    client: S3Client,
    name: String,
    length: u64,
    /// How much of it was requested.
    requested: u64,
    piece: io::Cursor<Vec<u8>>,
    runtime: Handle,
}

impl ObjectReader {
    /// A reader of an object; `runtime` makes its requests.
    ///
    /// # Errors
    /// [`S3Error`] if the object is not there.
    pub async fn open(client: S3Client, name: &str, runtime: Handle) -> Result<Self, S3Error> {
        let length = client.length(name).await?;
        Ok(Self {
            client,
            name: name.to_owned(),
            length,
            requested: 0,
            piece: io::Cursor::default(),
            runtime,
        })
    }

    /// How many bytes the object has.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    fn next_piece(&mut self) -> io::Result<()> {
        let bytes = PIECE.min(self.length - self.requested);
        let size = usize::try_from(bytes).unwrap_or_default();
        let reading = self.client.read(&self.name, self.requested, size);
        let piece = self.runtime.block_on(reading).map_err(io::Error::other)?;
        self.requested += bytes;
        self.piece = io::Cursor::new(piece);
        Ok(())
    }
}

impl Read for ObjectReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.piece.read(into)?;
        if read > 0 || into.is_empty() || self.requested == self.length {
            return Ok(read);
        }
        self.next_piece()?;
        self.piece.read(into)
    }
}
