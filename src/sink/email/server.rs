//! One conversation with an SMTP server for one mail, and what its answers mean.
//!
//! Each step is sent by itself, so that a refusal says which one it was. A refused recipient or
//! message (5xx) blames the change. Everything else blames the server or the configuration: the
//! connection, TLS, the login, the sender, and every 4xx.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{
    AsyncSmtpConnection, Certificate, CertificateStore, TlsParameters,
};
use lettre::transport::smtp::commands::{Data, Mail as MailFrom, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;

use super::message::Mail;
use crate::config::{EmailSettings, MailTls};
use crate::duration;
use crate::sink::lookup::addresses;
use crate::sink::reason::Reason;
use crate::sink::{Preview, Verdict};
use crate::tls::problem_of;

/// How long the goodbye may take; the mail has been accepted by then.
const QUIT_TIME: Duration = Duration::from_secs(2);
/// How much of the server's answer a reason quotes.
const QUOTED_CHARS: usize = 160;

/// Where the mails of one sink go.
pub(super) struct Server {
    host: String,
    port: u16,
    tls: MailTls,
    parameters: Option<TlsParameters>,
    credentials: Option<Credentials>,
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
    fn failed(self) -> impl FnOnce(SmtpError) -> Failed {
        move |error| Failed { step: self, cause: Cause::Smtp(error) }
    }
}

impl Server {
    pub(super) fn build(settings: &EmailSettings) -> Result<Self, String> {
        let login = settings.login.as_ref();
        Ok(Self {
            host: settings.server.clone(),
            port: settings.port,
            tls: settings.tls,
            parameters: match settings.tls {
                MailTls::Off => None,
                MailTls::StartTls | MailTls::Tls => Some(parameters(settings)?),
            },
            credentials: login.map(|(user, password)| {
                Credentials::new(user.clone(), password.expose_secret().to_owned())
            }),
            timeout: settings.timeout,
        })
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
            let _ = tokio::time::timeout(QUIT_TIME, connection.quit()).await;
            Ok(())
        };
        match tokio::time::timeout(self.timeout, ready).await {
            Err(_) => Err(self.too_slow()),
            Ok(Ok(())) if self.credentials.is_some() => {
                Ok("the mail server accepts the login; no mail was sent".to_owned())
            }
            Ok(Ok(())) => Ok("the mail server answers; no mail was sent".to_owned()),
            Ok(Err(failed)) => Err(Reason::of(self.explain(&failed))),
        }
    }

    async fn converse(&self, mail: &Mail) -> Result<(), Failed> {
        let mut connection = self.connect().await?;
        let from = MailFrom::new(mail.envelope.from().cloned(), Vec::new());
        connection.command(from).await.map_err(Step::Sender.failed())?;
        for recipient in mail.envelope.to() {
            let to = Rcpt::new(recipient.clone(), Vec::new());
            connection.command(to).await.map_err(Step::Recipient.failed())?;
        }
        connection.command(Data).await.map_err(Step::Message.failed())?;
        connection.message(&mail.text).await.map_err(Step::Message.failed())?;
        let _ = tokio::time::timeout(QUIT_TIME, connection.quit()).await;
        Ok(())
    }

    /// A connection that is protected and logged in as configured.
    async fn connect(&self) -> Result<AsyncSmtpConnection, Failed> {
        let found = addresses(&self.host, self.port)
            .await
            .map_err(|error| Failed { step: Step::Connect, cause: Cause::Lookup(error) })?;
        let hello = ClientId::default();
        let wrapper = self.parameters.clone().filter(|_| self.tls == MailTls::Tls);
        let mut connection = AsyncSmtpConnection::connect_tokio1(
            found.as_slice(),
            Some(self.timeout),
            &hello,
            wrapper,
            None,
        )
        .await
        .map_err(Step::Connect.failed())?;
        if let (MailTls::StartTls, Some(parameters)) = (self.tls, &self.parameters) {
            connection
                .starttls(parameters.clone(), &hello)
                .await
                .map_err(Step::StartTls.failed())?;
        }
        if let Some(credentials) = &self.credentials {
            connection.auth(DEFAULT_MECHANISMS, credentials).await.map_err(Step::Login.failed())?;
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
            (Cause::Smtp(error), Step::Recipient | Step::Message) if error.is_permanent() => {
                Verdict::refused(text)
            }
            _ => Verdict::fault(text),
        }
    }

    fn explain(&self, failed: &Failed) -> String {
        let error = match &failed.cause {
            Cause::Lookup(error) => {
                return format!(
                    "the mail server {} was not found ({error}): check server and the network",
                    self.host
                );
            }
            Cause::Smtp(error) => error,
        };
        let Some(code) = error.status() else { return self.no_answer(failed.step, error) };
        let (what, remedy) = match failed.step {
            Step::Connect => ("the connection", "ask who runs it"),
            Step::StartTls => ("STARTTLS", "check port and tls"),
            Step::Login => ("the login", "correct login_file"),
            Step::Sender => ("the sender", "correct from, or let the server allow it"),
            Step::Recipient => ("a recipient", "correct to"),
            Step::Message => ("the mail", "its text says why"),
        };
        let said = error.source().map(ToString::to_string).unwrap_or_default();
        let words: Vec<&str> = said.split_whitespace().collect();
        let said = Reason::cut(&words.join(" "), QUOTED_CHARS);
        if error.is_transient() {
            format!("the mail server postponed {what} ({code}); it is tried again; it said: {said}")
        } else {
            format!("the mail server refused {what} ({code}): {remedy}; it said: {said}")
        }
    }

    /// Why there was no answer to read.
    fn no_answer(&self, step: Step, error: &SmtpError) -> String {
        let causes = || std::iter::successors(error.source(), |&cause| cause.source());
        if let Some(words) = causes().find_map(problem_of) {
            return format!("no safe connection to the mail server: {words}");
        }
        let io = causes().find_map(|cause| cause.downcast_ref::<io::Error>());
        match (step, io) {
            (Step::StartTls, None) => {
                "the mail server offers no STARTTLS: set tls to \"tls\", or check the port".to_owned()
            }
            (Step::Login, None) if error.is_client() => {
                "the mail server offers no login of a kind that is known: remove login_file, or check the port".to_owned()
            }
            (Step::Connect, Some(io)) => {
                format!("could not connect to the mail server at port {}: {io}", self.port)
            }
            (_, Some(io)) => format!("the connection to the mail server broke: {io}"),
            (_, None) => {
                "the mail server closed the connection, or its answer is not SMTP; check port and tls"
                    .to_owned()
            }
        }
    }
}

fn parameters(settings: &EmailSettings) -> Result<TlsParameters, String> {
    let mut builder = TlsParameters::builder(settings.server.clone());
    if let Some(path) = &settings.ca_file {
        let unusable = |why: String| {
            format!(
                "ca_file {}: {why}; name a PEM file of certificates that this user may read",
                path.display()
            )
        };
        let pem = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
        let certificate =
            Certificate::from_pem(&pem).map_err(|error| unusable(error.to_string()))?;
        builder =
            builder.certificate_store(CertificateStore::None).add_root_certificate(certificate);
    }
    builder.build().map_err(|error| {
        format!("making the TLS client: {error}; install the package ca-certificates")
    })
}
