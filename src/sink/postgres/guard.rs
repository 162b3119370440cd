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
const MOST: usize = 4 * 1024 * 1024;
/// The most bytes before the server is ready; of each message the library keeps some.
const MOST_BEFORE: usize = 256 * 1024;
/// The most settings that a server may tell: the library keeps each name. Real ones tell about 15.
const MOST_SETTINGS: u32 = 10_000;
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
        let most = if self.is_ready { MOST } else { MOST_BEFORE };
        if self.left > most || self.unasked > most || self.settings > MOST_SETTINGS {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, content: usize) -> Vec<u8> {
        let length = u32::try_from(content + 4).unwrap().to_be_bytes();
        [&[kind][..], &length, &vec![b'x'; content]].concat()
    }

    /// Messages of which `step` bytes are read at a time.
    fn read(messages: &mut Messages, bytes: &[u8], step: usize) -> io::Result<()> {
        bytes.chunks(step).try_for_each(|part| messages.read(part))
    }

    #[test]
    fn a_message_that_is_too_long_ends_the_connection_before_its_content() {
        for step in 1..8 {
            let mut messages = Messages::default();
            read(&mut messages, &message(READY, 1), step).unwrap();
            let mut long = message(b'D', 0);
            long[1..5].copy_from_slice(&0x7fff_fff0_u32.to_be_bytes());
            read(&mut messages, &long[..4], step).unwrap();
            assert!(read(&mut messages, &long[4..], step).is_err(), "{step}");
        }
    }

    #[test]
    fn what_comes_between_two_requests_is_bounded_and_less_before_the_server_is_ready() {
        let notices = message(b'N', 1019);
        let mut messages = Messages::default();
        for sent in 1..=MOST_BEFORE / notices.len() {
            messages.read(&notices).unwrap_or_else(|error| panic!("{sent}: {error}"));
        }
        assert!(messages.read(&notices).is_err());

        let mut messages = Messages::default();
        messages.read(&message(READY, 1)).unwrap();
        messages.unasked = 0;
        for sent in 1..=MOST / notices.len() {
            messages.read(&notices).unwrap_or_else(|error| panic!("{sent}: {error}"));
        }
        assert!(messages.read(&notices).is_err());
        messages.unasked = 0;
        messages.read(&notices).unwrap();
    }

    #[test]
    fn settings_are_counted_over_all_requests() {
        let mut messages = Messages::default();
        messages.read(&message(READY, 1)).unwrap();
        for _ in 0..MOST_SETTINGS {
            messages.read(&message(SETTING, 4)).unwrap();
            messages.unasked = 0;
        }
        assert!(messages.read(&message(SETTING, 4)).is_err());
    }
}
