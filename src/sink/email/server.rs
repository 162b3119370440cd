//! One conversation with an SMTP server for one mail, and what its answers mean.
//!
//! Each step is sent by itself, so that a refusal says which one it was. A refused recipient or
//! message (5xx) blames the change. Everything else blames the server or the configuration: the
//! connection, TLS, the login, the sender, and every 4xx.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use secrecy::ExposeSecret;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::message::Mail;
use super::smtp::{Conversation, SmtpError, Stream, encrypted};
use crate::config::{EmailSettings, MailTls, Secret};
use crate::duration;
use crate::sink::lookup::addresses;
use crate::sink::reason::Reason;
use crate::sink::secrets::Secrets;
use crate::sink::{Preview, Verdict};
use crate::tls::{client_config_now, problem_of};

/// How long the goodbye may take; the mail has been accepted by then.
const QUIT_TIME: Duration = Duration::from_secs(2);
/// How much of the server's answer a reason quotes.
const QUOTED_CHARS: usize = 160;

/// Where the mails of one sink go.
pub(super) struct Server {
    host: String,
    port: u16,
    tls: MailTls,
    config: Option<Arc<ClientConfig>>,
    login: Option<(String, Secret)>,
    secrets: Secrets,
    timeout: Duration,
}

/// Why a mail was not accepted, and by which step.
struct Failed {
    step: Step,
    cause: Cause,
}

#[derive(Clone, Copy, PartialEq)]
enum Step {
    Connect,
    StartTls,
    Login,
    Sender,
    Recipient,
    Message,
}

enum Cause {
    Lookup(io::Error),
    Smtp(SmtpError),
}

impl Step {
    fn failed<E: Into<SmtpError>>(self) -> impl FnOnce(E) -> Failed {
        move |error| Failed { step: self, cause: Cause::Smtp(error.into()) }
    }
}

impl Server {
    pub(super) fn build(settings: &EmailSettings) -> Result<Self, String> {
        let login = settings.login.clone();
        let config = match settings.tls {
            MailTls::Off => None,
            MailTls::StartTls | MailTls::Tls => {
                let config = client_config_now(settings.ca_file.as_deref());
                Some(Arc::new(config.map_err(|error| error.to_string())?))
            }
        };
        let secrets = match &login {
            Some((user, password)) => Secrets::of_login(user, password.expose_secret()),
            None => Secrets::new([]),
        };
        Ok(Self {
            host: settings.server.clone(),
            port: settings.port,
            tls: settings.tls,
            config,
            login,
            secrets,
            timeout: settings.timeout,
        })
    }

    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Sends one mail.
    pub(super) async fn send(&self, mail: &Mail, stop: &CancellationToken) -> Verdict {
        let sending = tokio::time::timeout(self.timeout, self.converse(mail));
        match stop.run_until_cancelled(sending).await {
            None => Verdict::CutShort,
            Some(Err(_)) => Verdict::fault(self.too_slow()),
            Some(Ok(Ok(()))) => Verdict::Done,
            Some(Ok(Err(failed))) => self.judge(&failed),
        }
    }

    /// What [`Self::send`] would do.
    pub(super) fn preview(&self, mail: &Mail) -> Preview {
        let to: Vec<String> = mail.envelope.to().iter().map(ToString::to_string).collect();
        let how = format!("mail to {} by {} port {}:", to.join(", "), self.host, self.port);
        Preview::of(how, String::from_utf8_lossy(&mail.text))
    }

    /// Connects and logs in, and sends no mail.
    pub(super) async fn probe(&self) -> Result<String, String> {
        let ready = async {
            let mut connection = self.connect().await?;
            let _ = tokio::time::timeout(QUIT_TIME, connection.command("QUIT", 2)).await;
            Ok(())
        };
        match tokio::time::timeout(self.timeout, ready).await {
            Err(_) => Err(self.too_slow()),
            Ok(Ok(())) if self.login.is_some() => {
                Ok("the mail server accepts the login; no mail was sent".to_owned())
            }
            Ok(Ok(())) => Ok("the mail server answers; no mail was sent".to_owned()),
            Ok(Err(failed)) => Err(Reason::of(self.explain(&failed))),
        }
    }

    async fn converse(&self, mail: &Mail) -> Result<(), Failed> {
        let mut connection = self.connect().await?;
        let from = mail.envelope.from().map(ToString::to_string).unwrap_or_default();
        let sender = connection.command(&format!("MAIL FROM:<{from}>"), 2).await;
        sender.map_err(Step::Sender.failed())?;
        for recipient in mail.envelope.to() {
            let taken = connection.command(&format!("RCPT TO:<{recipient}>"), 2).await;
            taken.map_err(Step::Recipient.failed())?;
        }
        connection.command("DATA", 3).await.map_err(Step::Message.failed())?;
        connection.text(&mail.text).await.map_err(Step::Message.failed())?;
        let _ = tokio::time::timeout(QUIT_TIME, connection.command("QUIT", 2)).await;
        Ok(())
    }

    /// A connection that is protected and logged in as configured.
    async fn connect(&self) -> Result<Conversation, Failed> {
        let found = addresses(&self.host, self.port)
            .await
            .map_err(|error| Failed { step: Step::Connect, cause: Cause::Lookup(error) })?;
        let stream = TcpStream::connect(found.as_slice()).await.map_err(Step::Connect.failed())?;
        let mut stream: Box<dyn Stream> = Box::new(stream);
        if let (MailTls::Tls, Some(config)) = (self.tls, &self.config) {
            let safe = encrypted(stream, &self.host, config).await;
            stream = safe.map_err(Step::Connect.failed())?;
        }
        let mut connection = Conversation::begin(stream).await.map_err(Step::Connect.failed())?;
        if let (MailTls::StartTls, Some(config)) = (self.tls, &self.config) {
            let safe = connection.start_tls(&self.host, config).await;
            connection = safe.map_err(Step::StartTls.failed())?;
        }
        if let Some((user, password)) = &self.login {
            connection.log_in(user, password).await.map_err(Step::Login.failed())?;
        }
        Ok(connection)
    }

    fn too_slow(&self) -> String {
        let limit = duration::exact(self.timeout);
        format!("the mail server did not finish within {limit}; if it is only slow, raise timeout")
    }

    fn judge(&self, failed: &Failed) -> Verdict {
        let text = self.explain(failed);
        match (&failed.cause, failed.step) {
            (Cause::Smtp(SmtpError::Refused(answer)), Step::Recipient | Step::Message)
                if answer.is_permanent() =>
            {
                Verdict::refused(text)
            }
            _ => Verdict::fault(text),
        }
    }

    fn explain(&self, failed: &Failed) -> String {
        let answer = match &failed.cause {
            Cause::Lookup(error) => {
                return format!(
                    "the mail server {} was not found ({error}): check server and the network",
                    self.host
                );
            }
            Cause::Smtp(SmtpError::Refused(answer)) => answer,
            Cause::Smtp(SmtpError::Io(error)) => return self.broken(failed.step, error),
            Cause::Smtp(error) => return error.to_string(),
        };
        let code = answer.code;
        let (what, remedy) = match failed.step {
            Step::Connect => ("the connection", "ask who runs it"),
            Step::StartTls => ("STARTTLS", "check port and tls"),
            Step::Login => ("the login", "correct login_file"),
            Step::Sender => ("the sender", "correct from, or let the server allow it"),
            Step::Recipient => ("a recipient", "correct to"),
            Step::Message => ("the mail", "its text says why"),
        };
        let said = answer.to_string();
        let words: Vec<&str> = said.split_whitespace().collect();
        let said = Reason::cut(&words.join(" "), QUOTED_CHARS);
        if answer.is_transient() {
            format!("the mail server postponed {what} ({code}); it is tried again; it said: {said}")
        } else {
            format!("the mail server refused {what} ({code}): {remedy}; it said: {said}")
        }
    }

    /// Why there was no answer to read.
    fn broken(&self, step: Step, error: &io::Error) -> String {
        if let Some(words) = problem_of(error) {
            return format!("no safe connection to the mail server: {words}");
        }
        match step {
            Step::Connect => {
                format!("could not connect to the mail server at port {}: {error}", self.port)
            }
            _ => format!("the connection to the mail server broke: {error}"),
        }
    }
}
