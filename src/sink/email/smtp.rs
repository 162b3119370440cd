//! The commands and answers of SMTP (RFC 5321), with a bound on each answer.
//!
//! A server that sends without end gets an error after [`MOST_LINES`] lines or [`LONGEST_LINE`] bytes
//! of one line: it can fill no memory, and reading its answer takes no time that others miss.

use std::fmt;
use std::io;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use secrecy::ExposeSecret;

use crate::config::Secret;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio_rustls::TlsConnector;

/// The most lines of one answer; those of real servers have about twenty.
const MOST_LINES: usize = 128;
/// The most bytes of one line; the protocol says 512.
const LONGEST_LINE: usize = 4096;

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Why a command did not succeed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SmtpError {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server refused, or asks to try again later.
    #[error("{0}")]
    Refused(Answer),
    #[error(
        "the mail server sends an answer without end, or what it sends is not SMTP; check server and port"
    )]
    Endless,
    #[error("the mail server closed the connection, or its answer is not SMTP; check port and tls")]
    NotSmtp,
    #[error("the mail server offers no STARTTLS: set tls to \"tls\", or check the port")]
    NoStartTls,
    #[error(
        "the mail server offers no login of a kind that is known: remove login_file, or check the port"
    )]
    NoLogin,
}

/// One answer of the server.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) lines: Vec<String>,
}

impl Answer {
    pub(super) fn is_transient(&self) -> bool {
        self.code / 100 == 4
    }

    pub(super) fn is_permanent(&self) -> bool {
        self.code / 100 == 5
    }

    /// What stands behind a keyword in the answer to `EHLO`.
    fn offers(&self, keyword: &str) -> Option<Vec<String>> {
        let words = |line: &String| -> Vec<String> {
            line.to_ascii_uppercase().split([' ', '=']).map(str::to_owned).collect()
        };
        let mut offers = self.lines.iter().skip(1).map(words);
        offers.find(|words| words[0] == keyword).map(|words| words[1..].to_vec())
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines.join(" "))
    }
}

/// A conversation with a server.
pub(super) struct Conversation {
    stream: BufReader<Box<dyn Stream>>,
    /// The answer to `EHLO`.
    offered: Answer,
}

impl Conversation {
    /// Reads the greeting and says hello.
    pub(super) async fn begin(stream: Box<dyn Stream>) -> Result<Self, SmtpError> {
        let offered = Answer { code: 0, lines: Vec::new() };
        let mut conversation = Self { stream: BufReader::new(stream), offered };
        let greeting = conversation.answer().await?;
        accepted(greeting, 2)?;
        conversation.hello().await?;
        Ok(conversation)
    }

    /// Encrypts the connection.
    pub(super) async fn start_tls(
        mut self,
        host: &str,
        config: &Arc<ClientConfig>,
    ) -> Result<Self, SmtpError> {
        if self.offered.offers("STARTTLS").is_none() {
            return Err(SmtpError::NoStartTls);
        }
        self.command("STARTTLS", 2).await?;
        // What already followed the answer was not encrypted: anyone may have sent it.
        if !self.stream.buffer().is_empty() {
            return Err(SmtpError::NotSmtp);
        }
        let stream = encrypted(self.stream.into_inner(), host, config).await?;
        let mut conversation = Self { stream: BufReader::new(stream), offered: self.offered };
        conversation.hello().await?;
        Ok(conversation)
    }

    pub(super) async fn log_in(&mut self, user: &str, password: &Secret) -> Result<(), SmtpError> {
        let kinds = self.offered.offers("AUTH").unwrap_or_default();
        let offers = |kind: &str| kinds.iter().any(|offered| offered == kind);
        let password = password.expose_secret();
        if offers("PLAIN") {
            let login = STANDARD.encode(format!("\0{user}\0{password}"));
            self.command(&format!("AUTH PLAIN {login}"), 2).await?;
        } else if offers("LOGIN") {
            self.command("AUTH LOGIN", 3).await?;
            self.command(&STANDARD.encode(user), 3).await?;
            self.command(&STANDARD.encode(password), 2).await?;
        } else {
            return Err(SmtpError::NoLogin);
        }
        Ok(())
    }

    /// Sends a command and expects an answer of this class: 2 for done, 3 for more to be sent.
    pub(super) async fn command(&mut self, command: &str, class: u16) -> Result<(), SmtpError> {
        self.write(format!("{command}\r\n").as_bytes()).await?;
        let answer = self.answer().await?;
        accepted(answer, class).map(drop)
    }

    /// Sends the text of a mail, whose lines end in CR and LF.
    pub(super) async fn text(&mut self, text: &[u8]) -> Result<(), SmtpError> {
        self.write(&stuffed(text)).await?;
        let answer = self.answer().await?;
        accepted(answer, 2).map(drop)
    }

    async fn hello(&mut self) -> Result<(), SmtpError> {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        let is_usual = !name.is_empty() && name.chars().all(is_name);
        let name = if is_usual { name.as_str() } else { "[127.0.0.1]" };
        self.write(format!("EHLO {name}\r\n").as_bytes()).await?;
        let answer = self.answer().await?;
        self.offered = accepted(answer, 2)?;
        Ok(())
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), SmtpError> {
        self.stream.write_all(bytes).await?;
        Ok(self.stream.flush().await?)
    }

    async fn answer(&mut self) -> Result<Answer, SmtpError> {
        let mut lines = Vec::new();
        loop {
            let line = self.line().await?;
            let (code, rest) = line.split_at_checked(3).ok_or(SmtpError::NotSmtp)?;
            let code = code.parse().map_err(|_| SmtpError::NotSmtp)?;
            let is_last = match rest.chars().next() {
                None | Some(' ') => true,
                Some('-') => false,
                Some(_) => return Err(SmtpError::NotSmtp),
            };
            lines.push(rest.get(1..).unwrap_or_default().to_owned());
            if is_last {
                return Ok(Answer { code, lines });
            }
            if lines.len() == MOST_LINES {
                return Err(SmtpError::Endless);
            }
        }
    }

    /// The next line, without its end.
    async fn line(&mut self) -> Result<String, SmtpError> {
        let mut line = Vec::new();
        loop {
            let found = self.stream.fill_buf().await?;
            if found.is_empty() {
                return Err(SmtpError::NotSmtp);
            }
            let end = found.iter().position(|byte| *byte == b'\n');
            let length = end.map_or(found.len(), |end| end + 1);
            if line.len() + length > LONGEST_LINE {
                return Err(SmtpError::Endless);
            }
            line.extend_from_slice(&found[..length]);
            self.stream.consume(length);
            if end.is_some() {
                let line = String::from_utf8_lossy(&line);
                return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
            }
        }
    }
}

/// A stream with TLS, whose certificate is for `host`.
pub(super) async fn encrypted(
    stream: Box<dyn Stream>,
    host: &str,
    config: &Arc<ClientConfig>,
) -> Result<Box<dyn Stream>, SmtpError> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    Ok(Box::new(TlsConnector::from(config.clone()).connect(name, stream).await?))
}

fn accepted(answer: Answer, class: u16) -> Result<Answer, SmtpError> {
    match answer.code / 100 {
        found if found == class => Ok(answer),
        4 | 5 => Err(SmtpError::Refused(answer)),
        _ => Err(SmtpError::NotSmtp),
    }
}

/// A text with a second dot at each line that begins with one, and with the line that ends it.
fn stuffed(text: &[u8]) -> Vec<u8> {
    let mut sent = Vec::with_capacity(text.len() + 64);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b".") {
            sent.push(b'.');
        }
        sent.extend_from_slice(line);
    }
    if !sent.ends_with(b"\r\n") {
        sent.extend_from_slice(b"\r\n");
    }
    sent.extend_from_slice(b".\r\n");
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `Conversation::begin` makes of what a server sends before it closes.
    async fn begun(server: impl AsRef<[u8]>) -> Result<Conversation, SmtpError> {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        theirs.write_all(server.as_ref()).await.unwrap();
        theirs.shutdown().await.unwrap();
        Conversation::begin(Box::new(ours)).await
    }

    #[tokio::test]
    async fn the_answer_to_the_greeting_says_what_is_offered() {
        let said = "220-hello\r\n220 x\r\n250-x\r\n250-AUTH=PLAIN login\r\n250 STARTTLS\r\n";
        let conversation = begun(said).await.unwrap_or_else(|error| panic!("{error}"));
        let offers = |keyword| conversation.offered.offers(keyword);
        assert_eq!(offers("AUTH").unwrap(), ["PLAIN", "LOGIN"]);
        assert!(offers("STARTTLS").is_some() && offers("X").is_none());
    }

    #[test]
    fn no_line_of_a_mail_ends_it() {
        for (text, sent) in [
            ("a\r\n", "a\r\n.\r\n"),
            ("a", "a\r\n.\r\n"),
            ("", "\r\n.\r\n"),
            (".\r\n..\r\na.\r\n", "..\r\n...\r\na.\r\n.\r\n"),
            ("a\n.\nb\r\n", "a\n..\nb\r\n.\r\n"),
        ] {
            assert_eq!(String::from_utf8(stuffed(text.as_bytes())).unwrap(), sent);
        }
    }
}
