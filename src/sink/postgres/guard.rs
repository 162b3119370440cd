//! Bounds what a server may send, because the library keeps each message as a whole.
//!
//! The stream follows the messages of the protocol, of which it reads the kind and the length. It ends
//! with an error before a message that is too long, and when a server sends too much between two
//! requests. Real servers stay far below: the answers that are asked for here are small.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};

/// The most bytes between two requests, and so of one message.
const MAX: usize = 4 * 1024 * 1024;
/// The most bytes before the server is ready; of each message the library keeps some.
const MAX_BEFORE: usize = 256 * 1024;
/// The most settings that a server may tell: the library keeps each name. Real ones tell about 15.
const MAX_SETTINGS: u32 = 10_000;
const HEADER: usize = 5;
const SETTING: u8 = b'S';
const READY: u8 = b'Z';

/// A stream of the messages of a server, without TLS.
#[derive(Debug)]
pub(super) struct Guarded<S> {
    stream: S,
    messages: Messages,
}

impl<S> Guarded<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, messages: Messages::default() }
    }
}

/// Where in the messages of the server the stream stands.
#[derive(Debug, Default)]
struct Messages {
    /// The kind and the length of the next message, as far as they were read.
    header: Vec<u8>,
    /// How many bytes of this message are still to come.
    left: usize,
    /// How many bytes came since the last request.
    unasked: usize,
    settings: u32,
    is_ready: bool,
}

impl Messages {
    /// Goes on by what was read; an error if it is too much.
    fn read(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.unasked += bytes.len();
        while !bytes.is_empty() {
            if self.left > 0 {
                let passed = self.left.min(bytes.len());
                self.left -= passed;
                bytes = &bytes[passed..];
                continue;
            }
            let missing = HEADER - self.header.len();
            let (found, rest) = bytes.split_at(missing.min(bytes.len()));
            self.header.extend_from_slice(found);
            bytes = rest;
            if let [kind, length @ ..] = self.header.as_slice()
                && let Ok(length) = <[u8; 4]>::try_from(length)
            {
                let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                // The length counts itself.
                self.left = length.saturating_sub(4);
                self.settings += u32::from(*kind == SETTING);
                self.is_ready |= *kind == READY;
                self.header.clear();
            }
        }
        let most = if self.is_ready { MAX } else { MAX_BEFORE };
        if self.left > most || self.unasked > most || self.settings > MAX_SETTINGS {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the server sends more than any answer needs, or it is no PostgreSQL; check host and port in the url",
            ));
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.messages.read(&buffer.filled()[before..]))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        if written > 0 {
            self.messages.unasked = 0;
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: TlsStream + Unpin> TlsStream for Guarded<S> {
    fn channel_binding(&self) -> ChannelBinding {
        self.stream.channel_binding()
    }
}

/// Makes TLS connections whose content is guarded.
pub(super) struct Guard<T>(pub(super) T);

impl<S, T> MakeTlsConnect<S> for Guard<T>
where
    T: MakeTlsConnect<S>,
    <T::TlsConnect as TlsConnect<S>>::Future: Send + 'static,
{
    type Stream = Guarded<T::Stream>;
    type TlsConnect = Guard<T::TlsConnect>;
    type Error = T::Error;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Self::TlsConnect, Self::Error> {
        Ok(Guard(self.0.make_tls_connect(domain)?))
    }
}

impl<S, T> TlsConnect<S> for Guard<T>
where
    T: TlsConnect<S>,
    T::Future: Send + 'static,
{
    type Stream = Guarded<T::Stream>;
    type Error = T::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Stream, Self::Error>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let connecting = self.0.connect(stream);
        Box::pin(async { Ok(Guarded::new(connecting.await?)) })
    }
}
